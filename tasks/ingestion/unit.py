"""Reads one file of a source from end to end: rows to shards, bad rows to quarantine, counts."""

import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tasks.artifact import Memo, Workspace, uncollected
from tasks.artifact.digests import hash_file, remember
from tasks.artifact.ledger import QUARANTINE_FILE
from tasks.errors import DataError
from tasks.ingestion.account import Account
from tasks.ingestion.formats.batches import Batch, Origin
from tasks.ingestion.formats.jsonl import read_jsonl_from
from tasks.ingestion.formats.readers import limited, read_rows
from tasks.ingestion.growth.appended import FinishedPart, KeptBadRows, is_appendable, reused_part
from tasks.ingestion.growth.full_shards import part_by_processes
from tasks.ingestion.growth.marks import Mark, small_marks
from tasks.ingestion.growth.trail import Trail
from tasks.ingestion.mixture import Sample, lowest
from tasks.ingestion.params import Source
from tasks.ingestion.places.files import SourceFile, changed, check_unchanged
from tasks.ingestion.places.prefixes import stamp
from tasks.ingestion.quarantine import QuarantineWriter
from tasks.ingestion.shard_writer import Ended, ShardWriter

WARNINGS_LIMIT = 20


def ingest_file(
    workspace: Workspace,
    unit: str,
    source: Source,
    file: SourceFile,
    limit: int | None,
    advance: Callable[[int], object],
    memo: Memo,
) -> dict[str, Any]:
    """Writes shards and quarantine below `scratch/<unit>/`; returns the unit's summary.

    The ledger's rows in are records counted before parsing (lines, array elements, a columnar
    file's own row count). Rows beyond `limit` are neither read nor counted. If the file has grown
    since an earlier artifact, the shards of that one are used again.

    Raises:
        DataError: the file as a whole cannot be used.
    """
    directory = workspace.scratch / unit
    shutil.rmtree(directory, ignore_errors=True)  # of an unfinished attempt
    directory.mkdir()
    warnings: list[str] = []
    columns: dict[str, str] = {}
    origin = replace(
        file.origin(directory), advance=advance, warn=warnings.append, declare=columns.update
    )
    account = Account(source, file.name, Sample(source), KeptBadRows())
    grows = is_appendable(source, file, limit)
    if grows:
        shards, marks = _read_rest(workspace, unit, account, origin, file, memo)
    else:
        shards, marks = _read_whole(workspace, unit, account, origin, file, limit), []
    account.leave_out_unselected()
    return {
        "ledger": account.ledger.to_json(),
        "shards": shards,
        "counted": account.counted,
        "file": file.name,
        "columns": columns,
        "places": lowest(account.sample.places, source.cap) if source.cap else [],
        "examples": account.examples,
        "warnings": _first_warnings(warnings, file.name),
        "for_next_run": account.bad.summary(marks) if grows and not warnings else None,
    }


def _read_whole(
    workspace: Workspace,
    unit: str,
    account: Account,
    origin: Origin,
    file: SourceFile,
    limit: int | None,
) -> int:
    """Reads a file from its first byte and writes its shards; returns their number."""
    nothing = FinishedPart()
    check_unchanged(file)
    batches = _batches(origin, file, nothing, limit)
    shards, _ = _write(workspace, unit, account, origin, batches, nothing, None)
    check_unchanged(file)
    return shards


def _read_rest(
    workspace: Workspace,
    unit: str,
    account: Account,
    origin: Origin,
    file: SourceFile,
    memo: Memo,
) -> tuple[int, list[Mark]]:
    """Links the shards of an earlier artifact and reads the rest of the file; returns the number of
    shards, and the marks by which the next run recognises them."""
    before = stamp(file.path)
    directory = f"{workspace.scratch.name}/{unit}"
    with _change_told(file):
        finished = reused_part(memo, unit, file, directory)
    origin.advance(finished.last.end)
    where = workspace, directory, account.source.name, file
    finished = part_by_processes(*where, finished, before, origin.advance)
    with Trail(finished) as trail:
        origin = replace(origin, follow=trail.follow)
        batches = _batches(origin, file, finished, None)
        shards, small = _write(workspace, unit, account, origin, batches, finished, trail.mark)
        *marks, end = trail.with_end(shards, account.ledger.rows_out, account.ledger.rows_in)
    if end.prefix != file.digest:
        raise changed(file)
    with _change_told(file):
        marks += small_marks(file.path, *trail.marked, small, end)
    if stamp(file.path) != before:
        check_unchanged(file)
    return shards, [*marks, end]


def _batches(
    origin: Origin, file: SourceFile, finished: FinishedPart, limit: int | None
) -> Iterator[Batch]:
    """The file's batches after its finished part.

    Raises:
        DataError: the file cannot be used, or is no longer the one that was hashed.
    """
    with _change_told(file):
        if finished.marks:
            last = finished.last
            batches = read_jsonl_from(origin, last.end, last.line + 1)
        else:
            batches = read_rows(file.format, origin)
        yield from limited(batches, limit, file.name)


@contextmanager
def _change_told(file: SourceFile) -> Generator[None, None, None]:
    """If reading fails and the file is gone, or not the one that was hashed, the error is that."""
    try:
        yield
    except (DataError, OSError):
        check_unchanged(file)
        raise


def _write(
    workspace: Workspace,
    unit: str,
    account: Account,
    origin: Origin,
    batches: Iterator[Batch],
    finished: FinishedPart,
    ended: Ended | None,
) -> tuple[int, list[tuple[int, int, int]]]:
    """Counts the finished part, writes and counts the batches; returns the number of shards, and
    for each new small shard the shards, rows and lines up to its end."""
    # The quarantine is renamed into place last, after everything beside it.
    name = f"{workspace.scratch.name}/{unit}"
    of_file = account.source.name, account.file
    last, full_rows = finished.last, finished.last_full.rows
    in_place = last.shards, full_rows, last.rows - full_rows
    with (
        workspace.writing(f"{name}/{QUARANTINE_FILE}") as quarantine_path,
        QuarantineWriter(quarantine_path, *of_file) as quarantine,
        ShardWriter(partial(_hashed, workspace), name, *of_file, *in_place, ended) as writer,
        uncollected(),
    ):
        account.add_finished(finished)
        quarantine.extend(finished.bad)
        for batch in batches:
            account.add(batch)
            quarantine.extend(batch.bad)
            writer.extend(*account.sample.select(batch))
            origin.advance(0)  # raises when the run is being stopped
    return writer.shards, writer.small


@contextmanager
def _hashed(workspace: Workspace, name: str) -> Generator[Path, None, None]:
    """`Workspace.writing`, and the finished file is hashed, in the writer's thread."""
    with workspace.writing(name) as path:
        yield path
    written = workspace.path / name
    remember(written, hash_file(written))


def _first_warnings(warnings: list[str], name: str) -> list[str]:
    more = len(warnings) - WARNINGS_LIMIT
    return [*warnings[:WARNINGS_LIMIT], *([f"{name}: {more} more like these"] if more > 0 else [])]
