"""The full shards of a large JSONL file, made by several processes at once.

    lines            |  10,000  |  4,000  |  4,000  |  4,000  | 700     full, if every line is a row
    made by             here      another    here     another
    all of them rows?   yes       yes        yes      no ─> from there on, the file is read as usual

Where shards end is computed from where lines end (`spans`), assuming that every line is a row. The
shards before the first one for which that is not so are the finished part, as if an earlier
artifact had held them; the rest of the file is read line by line in one process.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from tasks.artifact import Workspace, each, prefetch, processes_for, uncollected
from tasks.artifact.stamps import TICK_NANOSECONDS, Stamp
from tasks.errors import ArtifactError, DataError
from tasks.ingestion.formats.batches import Batch, Origin
from tasks.ingestion.formats.jsonl import read_jsonl_from
from tasks.ingestion.growth.appended import FinishedPart
from tasks.ingestion.growth.marks import Mark
from tasks.ingestion.growth.spans import Span, spans
from tasks.ingestion.places.files import SourceFile, changed
from tasks.ingestion.places.prefixes import PiecesHash, hash_on, stamp
from tasks.ingestion.shard_writer import ShardWriter

logger = logging.getLogger(__name__)

WORTH_PROCESS_BYTES = 64 * 2**20
"""Bytes of lines for each process more. Processes that are started here also serve later stages."""
MOST_PROCESSES = 8
"""The file is hashed by one process, which more than eight would outrun."""
ROUND_BYTES = 2**27
"""Bytes of lines after which the results are checked, and whether the file has changed."""


def part_by_processes(
    workspace: Workspace,
    directory: str,
    source: str,
    file: SourceFile,
    finished: FinishedPart,
    before: Stamp,
    advance: Callable[[int], object],
) -> FinishedPart:
    """Makes the full shards after `finished` in `directory`, as many as follow without a gap;
    returns the finished part up to the last of them. If the file is too small for several
    processes, `finished` is returned.

    `before`: the file's stamp before any of it was read. `advance` is called with the number of
    bytes done, and raises when the run is being stopped.

    Raises:
        DataError: the file was deleted or replaced.
    """
    processes = _processes(file.size - finished.last.end)
    if processes < 2 or finished.last.small:  # after small shards, few bytes follow
        return finished
    if not before or before[-1] > time.time_ns() - TICK_NANOSECONDS:
        return finished
    alone = replace(workspace, ingredients={}, report={})
    make = MakeShard(alone, directory, source, file.name, file.path)
    part, made = finished, list[Span]()
    try:
        with closing(prefetch(_rounds(spans(file.path, finished), processes))) as rounds:
            for some in rounds:
                part, sound = _after(part, make, some, processes)
                made += sound
                if stamp(file.path) != before:  # what was read may have been changed before
                    make.take_back(made)
                    return finished
                advance(sum(span.end - span.start for span in sound))
                if len(sound) < len(some):
                    break
    except OSError:
        if stamp(file.path) == before:
            raise
        raise changed(file) from None
    return part


def _processes(size: int) -> int:
    """How many processes are worth using for so many bytes of lines."""
    if size < WORTH_PROCESS_BYTES:
        return 1
    return min(MOST_PROCESSES, processes_for(size, WORTH_PROCESS_BYTES))


def _after(
    finished: FinishedPart, make: "MakeShard", some: Sequence[Span], processes: int
) -> tuple[FinishedPart, list[Span]]:
    """The finished part up to the last of these spans whose shards were made, and these spans:
    those before the first that holds anything but rows."""
    with ThreadPoolExecutor(1, "hash") as pool:
        waiting = pool.submit(_marked, make.path, finished, some)
        try:
            each(make, some, processes, "ingestion: shards", shown=False)
        except ArtifactError as error:
            logger.warning("%s: read by one process, line by line: %s", make.file, error)
            make.take_back(some)
        marked = waiting.result()
    sound = [*takewhile(lambda span: make.place(span).exists(), some)]
    make.take_back(some[len(sound) :])
    if not sound:
        return finished, sound
    marks = [mark for mark, _ in marked[: len(sound)]]
    return FinishedPart([*finished.marks, *marks], finished.bad, marked[len(sound) - 1][1]), sound


def _marked(
    path: Path, finished: FinishedPart, some: Sequence[Span]
) -> list[tuple[Mark, PiecesHash]]:
    """The mark at the end of every span, with the state of the hash there."""
    state, marked = finished.state.copy(), list[tuple[Mark, PiecesHash]]()
    with path.open("rb", buffering=0) as file:
        for span in some:
            hash_on(file, state, span.start, span.end)
            marked.append((Mark(*span.shard_end, span.end, state.hexdigest()), state.copy()))
    return marked


@dataclass(frozen=True)
class MakeShard:
    """Makes the shard of one span, unless the span holds anything but rows; can be pickled."""

    workspace: Workspace
    directory: str
    source: str
    file: str
    path: Path

    def place(self, span: Span) -> Path:
        """Where the span's shard goes."""
        return self.workspace.path / self.directory / f"{span.shards:05d}.parquet"

    def take_back(self, made: Sequence[Span]) -> None:
        """Removes the shards of these spans, if they were made."""
        for span in made:
            self.place(span).unlink(missing_ok=True)

    def __call__(self, span: Span) -> None:
        """Makes one shard."""
        full: list[bool] = []

        def ended(*shard_end: int) -> None:
            if shard_end != span.shard_end:  # rows were shorter than their lines: without a CR
                raise _NotAllRowsError
            full.append(True)

        where = self.workspace.writing, self.directory, self.source, self.file
        try:
            with ShardWriter(*where, span.shards, span.rows, ended=ended) as shards, uncollected():
                for batch in self._batches(span):
                    shards.extend(batch.rows, batch.raws)
                if not full:
                    raise _NotAllRowsError
        except (_NotAllRowsError, DataError):  # the reading line by line tells what is wrong
            self.take_back([span])

    def _batches(self, span: Span) -> Iterator[Batch]:
        """The span's batches.

        Raises:
            _NotAllRowsError, DataError: they hold anything but rows.
        """
        warnings: list[str] = []
        scratch = self.place(span).parent
        origin = Origin(self.path, self.file, "", "", scratch, warn=warnings.append)
        for batch in read_jsonl_from(origin, span.start, span.line + 1, span.end):
            if batch.bad or batch.blank or warnings:
                raise _NotAllRowsError
            yield batch


class _NotAllRowsError(Exception):
    """A span holds lines that are no rows."""


def _rounds(all_spans: Iterator[Span], processes: int) -> Iterator[list[Span]]:
    """The spans in groups: few spans at first, since a file that is not all rows most often shows
    it early."""
    most, some = 2 * processes, list[Span]()
    for span in all_spans:
        some.append(span)
        if len(some) >= most or span.end - some[0].start >= ROUND_BYTES:
            yield some
            most, some = 32 * most, []
    if some:
        yield some
