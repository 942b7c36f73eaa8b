"""One file of a source read from end to end: its rows in shards, its bad rows, its counts."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tasks.artifact import Ledger, Workspace
from tasks.errors import shown
from tasks.ingestion.batches import BadRow, Batch, Origin, first_rows
from tasks.ingestion.decompression import DamagedFile
from tasks.ingestion.delimited import read_csv
from tasks.ingestion.files import SourceFile, check_unchanged
from tasks.ingestion.isolation import isolated
from tasks.ingestion.json_array import read_json
from tasks.ingestion.jsonl import read_jsonl
from tasks.ingestion.mixture import Sample, leave_out, lowest
from tasks.ingestion.params import Source
from tasks.ingestion.quarantine import QuarantineWriter
from tasks.ingestion.shards import ShardWriter

QUARANTINE = "quarantine.parquet"
WARNINGS_LIMIT = 20

READERS: dict[str, Callable[[Origin], Iterator[Batch]]] = {
    "jsonl": read_jsonl,
    "json": read_json,
    "csv": read_csv,
    "parquet": partial(isolated, "parquet"),
    "arrow": partial(isolated, "arrow"),
}


def ingest_file(
    workspace: Workspace,
    unit: str,
    source: Source,
    file: SourceFile,
    limit: int | None,
    advance: Callable[[int], object],
) -> dict[str, Any]:
    """The unit's summary; shards and quarantine lie below `scratch/<unit>/`.

    The ledger's rows in are records counted before parsing (lines, array elements, a columnar
    file's own row count). Rows beyond `limit` are not read, and not counted as rows in.

    Raises:
        DataError: the file as a whole cannot be used.
    """
    directory = workspace.scratch / unit
    shutil.rmtree(directory, ignore_errors=True)  # of an attempt that did not finish this unit
    directory.mkdir()
    warnings: list[str] = []
    codec, delimiter = file.codec, file.delimiter
    columns: dict[str, str] = {}
    origin = Origin(
        file.path,
        file.name,
        codec,
        delimiter,
        directory,
        advance,
        warnings.append,
        columns.update,
    )
    ledger, examples, sample = Ledger(), dict[str, str](), Sample(source)
    counted = 0
    name = f"{workspace.scratch.name}/{unit}"
    check_unchanged(file)
    with (
        workspace.writing(f"{name}/{QUARANTINE}") as quarantine_path,
        QuarantineWriter(quarantine_path, source.name, file.name) as quarantine,
        ShardWriter(workspace.writing, name, source.name, file.name) as shards,
    ):
        for batch in _limited(READERS[file.format](origin), limit, file.name):
            _account(ledger, source.name, batch)
            for bad in batch.bad:
                examples.setdefault(bad.fault.reason, _example(file.name, bad))
            quarantine.extend(batch.bad)
            shards.extend(*sample.of(batch))
            counted += batch.counted
            advance(0)  # raises when the run is being stopped
        check_unchanged(file)
    leave_out(ledger, source.name, sample.left_out)
    ledger.check()
    return {
        "ledger": ledger.to_json(),
        "shards": shards.shards,
        "counted": counted,
        "file": file.name,
        "columns": columns,
        "places": lowest(sample.places, source.cap) if source.cap else [],
        "examples": examples,
        "warnings": _cut(warnings, file.name),
    }


def _limited(batches: Iterator[Batch], limit: int | None, name: str) -> Iterator[Batch]:
    """The batches up to `limit` records; damage is told with the rows that came before it."""
    counted = 0
    try:
        for whole in batches:
            batch = whole if limit is None else first_rows(whole, limit - counted)
            counted += batch.counted
            yield batch
            if limit is not None and counted >= limit:
                return
    except DamagedFile as error:
        raise DamagedFile(
            f"{error} ({counted:,} rows were read before the damage; none of {name} is used)"
        ) from error


def _account(ledger: Ledger, source: str, batch: Batch) -> None:
    ledger.count_in(source, batch.read)
    ledger.count_out(source, len(batch.rows))
    if batch.blank:
        ledger.drop(source, "blank_line", len(batch.blank))
    for reason, count in Counter(bad.fault.reason for bad in batch.bad).items():
        ledger.drop(source, reason, count)


def _example(name: str, bad: BadRow) -> str:
    field = f" field {shown(bad.fault.field)}" if bad.fault.field else ""
    return f"{name} row {bad.row}{field}: {bad.fault.message}"


def _cut(warnings: list[str], name: str) -> list[str]:
    more = len(warnings) - WARNINGS_LIMIT
    return [*warnings[:WARNINGS_LIMIT], *([f"{name}: {more} more like these"] if more > 0 else [])]
