"""Marks: where the shards of a growing file end, as line, byte offset and digest up to there.

    rows     |   10,000   |   4,000   | 1,000 | 1,000 | 300
    marks                 1           2       3       4   the file's end
             └─ full shards: ever the same ──┘└ small ones: until they fill a full one

A mark holds for every longer file that begins with the same bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.ingestion.places.prefixes import PiecesHash, hash_on
from tasks.ingestion.shards import SHARD_BYTES, shard_rows_after

PIECE_BYTES = 2**20
Ends = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Mark:
    """The end of a shard, or of the file."""

    shards: int
    """Shards up to here."""
    rows: int
    """Rows in these shards."""
    line: int
    """Lines up to here, blank and bad ones included."""
    end: int = 0
    """Bytes up to here."""
    prefix: str = ""
    """Digest of these bytes."""
    small: bool = False
    """Whether the shard is one of those that become a full one when there are enough of them."""


def line_ends(path: Path, start: int) -> Iterator[Ends]:
    """The bytes behind every line end from `start` on, piece by piece."""
    buffer = bytearray(PIECE_BYTES)
    piece = np.frombuffer(buffer, np.uint8)
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while count := file.readinto(buffer):
            yield np.flatnonzero(piece[:count] == ord("\n")) + (start + 1)
            start += count


def small_marks(
    path: Path,
    last: Mark,
    state: PiecesHash,
    shard_ends: Sequence[tuple[int, int, int]],
    whole: Mark,
) -> list[Mark]:
    """The marks of the small shards after the mark `last`; `state` is that of the hash there.

    `shard_ends`: for each small shard, the numbers of shards, rows and lines up to its end. `whole`
    is the mark at the file's end. There are none if the file has changed since it was read.
    """
    if not shard_ends:
        return []
    marks: list[Mark] = []
    state, line, done = state.copy(), last.line, last.end
    with path.open("rb", buffering=0) as file:
        for ends in line_ends(path, last.end):
            while len(marks) < len(shard_ends):
                number = shard_ends[len(marks)][2] - line
                if number > len(ends):
                    break
                done = hash_on(file, state, done, int(ends[number - 1]))
                marks.append(Mark(*shard_ends[len(marks)], done, state.hexdigest(), small=True))
            line += len(ends)
        hash_on(file, state, done, whole.end)
    return marks if state.hexdigest() == whole.prefix else []


def may_fill(path: Path, last: Mark) -> bool:
    """Whether the lines behind the last full shard may be enough for another one."""
    room, size = shard_rows_after(last.rows), path.stat().st_size - last.end
    if size >= SHARD_BYTES:
        return True
    lines = sum(len(ends) for ends in line_ends(path, last.end)) + 1  # the last may have no end
    return lines >= room
