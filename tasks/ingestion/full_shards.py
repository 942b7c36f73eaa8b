"""The full shards of a large file of lines, made side by side in several processes.

    lines            |  10,000  |  4,000  |  4,000  |  4,000  | 700     full, if every line is a row
    made by             here      another    here     another
    all of them rows?   yes       yes        yes      no ─> from there on, the file is read as ever

Where shards end is seen from where lines end, in a fraction of the time that their rows take. What
is made is the file's past, as if an earlier artifact had held it: what stands behind it is read
line by line, and so is a file of which this past cannot be believed.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.artifact import Behind, Workspace, each, processes_for, uncollected
from tasks.artifact.stamps import TICK_NANOSECONDS
from tasks.errors import DataError
from tasks.ingestion.appended import Mark, Past
from tasks.ingestion.batches import Batch, Origin
from tasks.ingestion.files import SourceFile
from tasks.ingestion.jsonl import read_jsonl_from
from tasks.ingestion.prefixes import stamp
from tasks.ingestion.shard_writer import ShardWriter
from tasks.ingestion.shards import GROUP_BYTES, GROUP_ROWS, is_full

WORTH_PROCESS_BYTES = 64 * 2**20
"""Of lines for each further process; one that is started here is ready for the next stages."""
ROUND_BYTES = 2**28
"""Of lines between two looks at whether all is well."""
PIECE_BYTES = 2**20
Ends = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """The lines of one full shard, if all of them are rows."""

    shards: int
    """Full shards before this one; the next are the same of rows, lines and bytes."""
    rows: int
    line: int
    start: int
    end: int
    """Bytes up to the end of the last line."""
    count: int
    """Lines of the span."""

    @property
    def told(self) -> tuple[int, int, int]:
        """What a writer tells of the shard when it is full: see `Ended`."""
        return self.shards + 1, self.rows + self.count, self.line + self.count


def side_by_side_past(
    workspace: Workspace,
    directory: str,
    source: str,
    file: SourceFile,
    past: Past,
    advance: Callable[[int], object],
) -> Past:
    """The past up to the last of the full shards that follow it in one go, which now stand in
    `directory`; the same past, where other processes would not pay.

    `advance` is called now and then, and raises when the run is being stopped.
    """
    processes = processes_for(file.size - past.last.end, WORTH_PROCESS_BYTES)
    before = stamp(file.path)
    if processes < 2 or not before or before[-1] > time.time_ns() - TICK_NANOSECONDS:
        return past
    make = MakeShard(workspace, directory, source, file.name, file.path)
    made: list[Span] = []
    with Behind() as behind:
        behind.put(file.prefixes.know, file.path)
        for some in _rounds(spans(file.path, past)):
            advance(0)
            each(make, some, processes, "ingestion: shards")
            sound = [*takewhile(lambda span: make.place(span).exists(), some)]
            made += sound
            if len(sound) < len(some):
                for span in some[len(sound) :]:
                    make.place(span).unlink(missing_ok=True)
                break
    if not made:
        return past
    states = file.prefixes.at(file.path, [span.end for span in made])
    if stamp(file.path) != before:  # nobody knows which of its bytes were read
        for span in made:
            make.place(span).unlink()
        return past
    new = [Mark(*span.told, span.end, states[span.end].hexdigest()) for span in made]
    return Past([*past.marks, *new], past.bad, states[new[-1].end])


@dataclass(frozen=True)
class MakeShard:
    """Makes the shard of one span; can be sent to a process. One of which not every line is a row
    is not made."""

    workspace: Workspace
    directory: str
    source: str
    file: str
    path: Path

    def place(self, span: Span) -> Path:
        """Where the shard is to stand."""
        return self.workspace.path / self.directory / f"{span.shards:05d}.parquet"

    def __call__(self, span: Span) -> None:
        """Makes one shard."""
        told: list[tuple[int, int, int]] = []

        def ended(shards: int, rows: int, line: int) -> None:
            told.append((shards, rows, line))

        where = self.workspace.writing, self.directory, self.source, self.file
        try:
            with ShardWriter(*where, span.shards, span.rows, ended) as shards, uncollected():
                for batch in self._batches(span):
                    shards.extend(batch.rows, batch.raws)
                if told != [span.told]:  # a line was shorter than it looked: the end is elsewhere
                    raise _NotAllRowsError
        except (_NotAllRowsError, DataError):  # who reads line by line says what there is to say
            self.place(span).unlink(missing_ok=True)

    def _batches(self, span: Span) -> Iterator[Batch]:
        """Batches of rows alone.

        Raises:
            _NotAllRowsError, DataError: there is something else.
        """
        warnings, nobody = list[str](), list[Any]().append
        told = nobody, warnings.append, nobody
        origin = Origin(self.path, self.file, "", "", self.place(span).parent, *told)
        for batch in read_jsonl_from(origin, span.start, span.line + 1, span.end):
            if batch.bad or batch.blank or warnings:
                raise _NotAllRowsError
            yield batch


class _NotAllRowsError(Exception):
    """A span holds something else than rows."""


def spans(path: Path, past: Past) -> Iterator[Span]:
    """The full shards of a file behind its past, if every line is a row, up to its last line end.

    They end where `ShardWriter` ends them.
    """
    shards, rows, line, start = past.last.shards, past.last.rows, past.last.line, past.last.end
    group, count, size = start, 0, 0
    ends = np.zeros(0, np.int64)
    for more in _line_ends(path, start):
        ends = np.concatenate([ends, more])
        while full := _full_group(ends, group):
            end = int(ends[full - 1])
            count, size = count + full, size + end - group - full
            group, ends = end, ends[full:]
            if is_full(rows, count, size):
                yield Span(shards, rows, line, start, end, count)
                shards, rows, line, start = shards + 1, rows + count, line + count, end
                count = size = 0


def _full_group(ends: Ends, start: int) -> int:
    """How many of the lines from `start` on make a full group of rows; 0 where they do not yet."""
    sizes = ends[:GROUP_ROWS] - start - np.arange(1, min(len(ends), GROUP_ROWS) + 1)
    full = int(np.searchsorted(sizes, GROUP_BYTES)) + 1
    return full if full <= len(sizes) else len(sizes) // GROUP_ROWS * GROUP_ROWS


def _line_ends(path: Path, start: int) -> Iterator[Ends]:
    """The bytes behind every line end from `start` on, piece by piece."""
    buffer = bytearray(PIECE_BYTES)
    piece = np.frombuffer(buffer, np.uint8)
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while count := file.readinto(buffer):
            yield np.flatnonzero(piece[:count] == ord("\n")) + (start + 1)
            start += count


def _rounds(given: Iterator[Span]) -> Iterator[list[Span]]:
    """The spans, some of them at a time."""
    some: list[Span] = []
    for span in given:
        some.append(span)
        if span.end - some[0].start >= ROUND_BYTES:
            yield some
            some = []
    if some:
        yield some
