"""The full shards of a large file of lines, made side by side in several processes.

    lines            |  10,000  |  4,000  |  4,000  |  4,000  | 700     full, if every line is a row
    made by             here      another    here     another
    all of them rows?   yes       yes        yes      no ─> from there on, the file is read as ever

Where shards end is told by where lines end (`spans`). What is made is the file's past, as if an
earlier artifact had held it: what stands behind it is read line by line, and so is a file of which
this past cannot be believed.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from tasks.artifact import Workspace, ahead, each, processes_for, uncollected
from tasks.artifact.stamps import TICK_NANOSECONDS, Stamp
from tasks.errors import ArtifactError, DataError
from tasks.ingestion.formats.batches import Batch, Origin
from tasks.ingestion.formats.jsonl import read_jsonl_from
from tasks.ingestion.growth.appended import Past
from tasks.ingestion.growth.marks import Mark
from tasks.ingestion.growth.spans import Span, spans
from tasks.ingestion.places.files import SourceFile, changed
from tasks.ingestion.places.prefixes import PiecesHash, hash_on, stamp
from tasks.ingestion.shard_writer import ShardWriter

logger = logging.getLogger(__name__)

WORTH_PROCESS_BYTES = 64 * 2**20
"""Of lines for each further process; one that is started here is ready for the next stages."""
MOST_PROCESSES = 8
"""With more of them the file would have to be read and hashed faster than one process does it."""
ROUND_BYTES = 2**27
"""Of lines between two looks at whether all is well."""


def side_by_side_past(
    workspace: Workspace,
    directory: str,
    source: str,
    file: SourceFile,
    past: Past,
    before: Stamp,
    advance: Callable[[int], object],
) -> Past:
    """The past up to the last of the full shards that follow it in one go, which now stand in
    `directory`; the same past, where other processes would not pay.

    `before`: the file's stamp before anything of it was read. `advance` is told of bytes that are
    done with, and raises when the run is being stopped.

    Raises:
        DataError: the file went, or another one took its place.
    """
    processes = _processes(file.size - past.last.end)
    if processes < 2 or past.last.small:  # so few bytes stand behind small shards
        return past
    if not before or before[-1] > time.time_ns() - TICK_NANOSECONDS:
        return past
    alone = replace(workspace, ingredients={}, report={})
    make = MakeShard(alone, directory, source, file.name, file.path)
    found, made = past, list[Span]()
    try:
        with closing(ahead(_rounds(spans(file.path, past), processes))) as rounds:
            for some in rounds:
                found, sound = _after(found, make, some, processes)
                made += sound
                if stamp(file.path) != before:  # nobody knows which of its bytes were read
                    make.take_back(made)
                    return past
                advance(sum(span.end - span.start for span in sound))
                if len(sound) < len(some):
                    break
    except OSError:
        if stamp(file.path) == before:
            raise
        raise changed(file) from None
    return found


def _processes(size: int) -> int:
    """How many pay for so many bytes of lines."""
    if size < WORTH_PROCESS_BYTES:
        return 1
    return min(MOST_PROCESSES, processes_for(size, WORTH_PROCESS_BYTES))


def _after(
    past: Past, make: "MakeShard", some: Sequence[Span], processes: int
) -> tuple[Past, list[Span]]:
    """The past once some spans are made that follow it, and which of them those are: up to the
    first that holds something else than rows."""
    with ThreadPoolExecutor(1, "hash") as pool:
        waiting = pool.submit(_marked, make.path, past, some)
        try:
            each(make, some, processes, "ingestion: shards", shown=False)
        except ArtifactError as error:
            logger.warning("%s: read by one process, line by line: %s", make.file, error)
            make.take_back(some)
        marked = waiting.result()
    sound = [*takewhile(lambda span: make.place(span).exists(), some)]
    make.take_back(some[len(sound) :])
    if not sound:
        return past, sound
    marks = [mark for mark, _ in marked[: len(sound)]]
    return Past([*past.marks, *marks], past.bad, marked[len(sound) - 1][1]), sound


def _marked(path: Path, past: Past, some: Sequence[Span]) -> list[tuple[Mark, PiecesHash]]:
    """The mark at the end of every span, and the hash over the file up to there, to go on with."""
    state, found = past.state.copy(), list[tuple[Mark, PiecesHash]]()
    with path.open("rb", buffering=0) as file:
        for span in some:
            hash_on(file, state, span.start, span.end)
            found.append((Mark(*span.told, span.end, state.hexdigest()), state.copy()))
    return found


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

    def take_back(self, made: Sequence[Span]) -> None:
        """Removes the shards of these spans, where they were made."""
        for span in made:
            self.place(span).unlink(missing_ok=True)

    def __call__(self, span: Span) -> None:
        """Makes one shard."""
        full: list[bool] = []

        def ended(*told: int) -> None:
            if told != span.told:  # lines were shorter than they looked
                raise _NotAllRowsError
            full.append(True)

        where = self.workspace.writing, self.directory, self.source, self.file
        try:
            with ShardWriter(*where, span.shards, span.rows, ended=ended) as shards, uncollected():
                for batch in self._batches(span):
                    shards.extend(batch.rows, batch.raws)
                if not full:
                    raise _NotAllRowsError
        except (_NotAllRowsError, DataError):  # who reads line by line says what there is to say
            self.take_back([span])

    def _batches(self, span: Span) -> Iterator[Batch]:
        """Batches of rows alone.

        Raises:
            _NotAllRowsError, DataError: there is something else.
        """
        warnings: list[str] = []
        scratch = self.place(span).parent
        origin = Origin(self.path, self.file, "", "", scratch, warn=warnings.append)
        for batch in read_jsonl_from(origin, span.start, span.line + 1, span.end):
            if batch.bad or batch.blank or warnings:
                raise _NotAllRowsError
            yield batch


class _NotAllRowsError(Exception):
    """A span holds something else than rows."""


def _rounds(given: Iterator[Span], processes: int) -> Iterator[list[Span]]:
    """The spans, some of them at a time: few at first, for what is wrong with a file most often
    shows early."""
    most, some = 2 * processes, list[Span]()
    for span in given:
        some.append(span)
        if len(some) >= most or span.end - some[0].start >= ROUND_BYTES:
            yield some
            most, some = 32 * most, []
    if some:
        yield some
