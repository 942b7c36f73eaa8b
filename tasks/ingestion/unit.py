"""One file of a source read from end to end: its rows in shards, its bad rows, its counts."""

import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tasks.artifact import Memo, Workspace, uncollected
from tasks.artifact.digests import hash_file, remember
from tasks.artifact.ledger import QUARANTINE_FILE
from tasks.errors import DataError
from tasks.ingestion.account import Account
from tasks.ingestion.formats.batches import Batch, Origin
from tasks.ingestion.formats.jsonl import read_jsonl_from
from tasks.ingestion.formats.readers import limited, read_rows
from tasks.ingestion.growth.appended import KeptBadRows, Past, is_appendable, past_of
from tasks.ingestion.growth.full_shards import side_by_side_past
from tasks.ingestion.growth.marks import Mark, small_marks
from tasks.ingestion.growth.trail import Trail
from tasks.ingestion.mixture import UNWANTED, Sample, leave_out, lowest
from tasks.ingestion.params import Source
from tasks.ingestion.places.files import SourceFile, changed, check_unchanged
from tasks.ingestion.places.prefixes import stamp
from tasks.ingestion.quarantine import QuarantineWriter
from tasks.ingestion.shard_writer import Ended, ShardWriter

T = TypeVar("T")
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
    """The unit's summary; shards and quarantine lie below `scratch/<unit>/`.

    The ledger's rows in are records counted before parsing (lines, array elements, a columnar
    file's own row count). Rows beyond `limit` are not read, and not counted as rows in. What an
    earlier artifact holds of a file that has grown since is taken from there.

    Raises:
        DataError: the file as a whole cannot be used.
    """
    directory = workspace.scratch / unit
    shutil.rmtree(directory, ignore_errors=True)  # of an attempt that did not finish this unit
    directory.mkdir()
    warnings: list[str] = []
    columns: dict[str, str] = {}
    told = (advance, warnings.append, columns.update)
    origin = Origin(file.path, file.name, file.codec, file.delimiter, directory, *told)
    origin = replace(origin, quotes=file.quotes)
    account = Account(source, file.name, Sample(source), KeptBadRows())
    grows = is_appendable(source, file, limit)
    if grows:
        shards, marks = _read_behind_past(workspace, unit, account, origin, file, memo)
    else:
        shards, marks = _read_whole(workspace, unit, account, origin, file, limit), []
    leave_out(account.ledger, source.name, account.sample.left_out)
    account.ledger.check()
    if first := account.sample.first_unwanted:
        account.examples[UNWANTED] = f"{file.name} {first}"
    return {
        "ledger": account.ledger.to_json(),
        "shards": shards,
        "counted": account.counted,
        "file": file.name,
        "columns": columns,
        "places": lowest(account.sample.places, source.cap) if source.cap else [],
        "examples": account.examples,
        "warnings": _cut(warnings, file.name),
        "past": account.bad.summary(marks) if grows and not warnings else None,
    }


def _read_whole(
    workspace: Workspace,
    unit: str,
    account: Account,
    origin: Origin,
    file: SourceFile,
    limit: int | None,
) -> int:
    """Reads and writes a file from its first byte; how many shards it has."""
    check_unchanged(file)
    batches = limited(_batches(origin, file, Past()), limit, file.name)
    shards, _ = _write(workspace, unit, account, origin, batches, Past(), None)
    check_unchanged(file)
    return shards


def _read_behind_past(
    workspace: Workspace,
    unit: str,
    account: Account,
    origin: Origin,
    file: SourceFile,
    memo: Memo,
) -> tuple[int, list[Mark]]:
    """Reads and writes what of a file no earlier artifact holds, and takes the rest from there; how
    many shards it has then, and the marks by which the next run knows them."""
    before = stamp(file.path)
    place = f"{workspace.scratch.name}/{unit}"
    past = _unless_gone(file, past_of, memo, unit, file, place)
    origin.advance(past.last.end)
    where = workspace, place, account.source.name, file
    past = side_by_side_past(*where, past, before, origin.advance)
    with Trail(past) as trail:
        origin = replace(origin, follow=trail.follow)
        batches = limited(_batches(origin, file, past), None, file.name)
        shards, small = _write(workspace, unit, account, origin, batches, past, trail.mark)
        marks = trail.with_end(shards, account.ledger.rows_out, account.ledger.rows_in)
    if marks[-1].prefix != file.digest:
        raise changed(file)
    told_ends = file.path, *trail.marked, small, marks[-1]
    marks[-1:] = [*_unless_gone(file, small_marks, *told_ends), marks[-1]]
    if stamp(file.path) != before:
        check_unchanged(file)
    return shards, marks


def _unless_gone(file: SourceFile, call: Callable[..., T], *args: Any) -> T:
    """What the call gives, which looks into the file again.

    Raises:
        DataError: the file is gone, or is not the one that was hashed any more.
    """
    try:
        return call(*args)
    except OSError:
        check_unchanged(file)
        raise


def _batches(origin: Origin, file: SourceFile, past: Past) -> Iterator[Batch]:
    """The file's batches behind its past.

    Raises:
        DataError: the file cannot be used, or is not the one that was hashed any more.
    """
    try:
        if past.marks:
            yield from read_jsonl_from(origin, past.last.end, past.last.line + 1)
        else:
            yield from read_rows(file.format, origin)
    except (DataError, OSError):
        check_unchanged(file)  # a file that changed, or is gone, has no fault of its own
        raise


def _write(
    workspace: Workspace,
    unit: str,
    account: Account,
    origin: Origin,
    batches: Iterator[Batch],
    past: Past,
    ended: Ended | None,
) -> tuple[int, list[tuple[int, int, int]]]:
    """How many shards the file has, once its past and its batches are written and booked, and of
    each new small one the shards, rows and lines up to its end."""
    # The quarantine is put in its place last, and with it all that stands beside it lasts.
    name = f"{workspace.scratch.name}/{unit}"
    of_file = account.source.name, account.file
    in_place = past.last.shards, past.last_full.rows, past.last.rows - past.last_full.rows
    with (
        workspace.writing(f"{name}/{QUARANTINE_FILE}") as quarantine_path,
        QuarantineWriter(quarantine_path, *of_file) as quarantine,
        ShardWriter(partial(_hashed, workspace), name, *of_file, *in_place, ended) as writer,
        uncollected(),
    ):
        account.add_past(past)
        quarantine.extend(past.bad)
        for batch in batches:
            account.add(batch)
            quarantine.extend(batch.bad)
            writer.extend(*account.sample.of(batch))
            origin.advance(0)  # raises when the run is being stopped
    return writer.shards, writer.small


@contextmanager
def _hashed(workspace: Workspace, name: str) -> Generator[Path, None, None]:
    """`Workspace.writing`, with the file hashed at its end: beside the caller, as it is written."""
    with workspace.writing(name) as path:
        yield path
    made = workspace.path / name
    remember(made, hash_file(made))


def _cut(warnings: list[str], name: str) -> list[str]:
    more = len(warnings) - WARNINGS_LIMIT
    return [*warnings[:WARNINGS_LIMIT], *([f"{name}: {more} more like these"] if more > 0 else [])]
