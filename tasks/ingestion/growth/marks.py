"""Where the shards of a growing file end: known by the lines, the bytes and the hash up to there.

    rows     |   10,000   |   4,000   | 1,000 | 1,000 | 300
    marks                 1           2       3       4   the file's end
             └─ full shards: ever the same ──┘└ small ones: until they fill a full one

What a mark says of the file is true of a longer one that begins with the same bytes.
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
    """Where a shard ends, or the file."""

    shards: int
    """How many end here or before."""
    rows: int
    """Rows that they hold."""
    line: int
    """Lines up to here, whatever became of them."""
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
    path: Path, last: Mark, state: PiecesHash, told: Sequence[tuple[int, int, int]], whole: Mark
) -> list[Mark]:
    """The marks of the small shards behind the mark `last`, where the hash is in `state`.

    `told` gives for each of them the shards, rows and lines up to its end, and `whole` is the mark
    at the file's end. Nothing is marked of a file that has changed since that was made.
    """
    if not told:
        return []
    found: list[Mark] = []
    state, line, done = state.copy(), last.line, last.end
    with path.open("rb", buffering=0) as file:
        for ends in line_ends(path, last.end):
            while len(found) < len(told) and (number := told[len(found)][2] - line) <= len(ends):
                done = hash_on(file, state, done, int(ends[number - 1]))
                found.append(Mark(*told[len(found)], done, state.hexdigest(), small=True))
            line += len(ends)
        hash_on(file, state, done, whole.end)
    return found if state.hexdigest() == whole.prefix else []


def may_fill(path: Path, last: Mark) -> bool:
    """Whether what stands behind the last full shard's mark may fill another shard."""
    room, size = shard_rows_after(last.rows), path.stat().st_size - last.end
    if size >= SHARD_BYTES:
        return True
    return sum(len(ends) for ends in line_ends(path, last.end)) + 1 >= room  # and one not closed
