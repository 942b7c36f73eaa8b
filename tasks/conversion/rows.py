"""Pass 1: the rows of one ingestion shard become pairs.

In:  rows/NNNNN.parquet (source, file, row, raw), of which the rows of sources that are joined are
     passed over; or a shard of the latter, laid out by `groups` so that what belongs together
     stands together (with a column `key`).
Out: the shard's pairs before duplicates are taken out, a small record per pair that finds the
     duplicates, the quarantined rows, and a summary: ledger, first examples, notes.
"""

import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Workspace
from tasks.conversion import shards, tables
from tasks.conversion.joining import Origin
from tasks.conversion.shard_pairs import Plan, ShardPairs
from tasks.conversion.tolerance import first_examples

ROW_COLUMNS = ["source", "file", "row", "raw"]
KEY = "key"


def rows_unit(path: Path) -> str:
    """The unit of a shard's first pass."""
    return f"rows-{path.stem}"


def convert_shard(
    workspace: Workspace, path: Path, plan: Plan
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Writes what the shard's rows become; its summary, which is kept as the unit's, and the
    quarantined rows."""
    shard = ShardPairs(plan)
    name = path.stem
    with workspace.writing(f"{shards.RAW_PAIRS}/{name}.arrow") as out, uncollected():
        _write_pairs(shard, path, out)
    with workspace.writing(f"{shards.KEY_ARRAYS}/{name}.npy") as out, out.open("wb") as stream:
        np.save(stream, np.concatenate(shard.key_arrays))
    with workspace.writing(f"{shards.QUARANTINES}/{name}.parquet") as out:
        shard.quarantine.write(out)
    summary = {
        "ledger": shard.ledger.to_json(),
        "examples": first_examples(shard.quarantine),
        "labels": {source: dict(c) for source, c in shard.labels.items()},
        "notes": {source: dict(sorted(c.items())) for source, c in shard.notes.items()},
        "overridden": {action: dict(sorted(c.items())) for action, c in shard.overridden.items()},
    }
    workspace.finish(rows_unit(path), summary)
    return summary, shard.quarantine.rows


@contextmanager
def uncollected() -> Generator[None, None, None]:
    """Without the search for cycles, of which rows have none: it costs a tenth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _write_pairs(shard: ShardPairs, rows: Path, out: Path) -> None:
    """As Arrow: read once more and gone with the scratch, so that compressing it would not pay."""
    with pq.ParquetFile(rows) as file, pa.ipc.new_file(out, tables.SCHEMA) as writer:
        if KEY in file.schema_arrow.names:
            for number, group in enumerate(_groups(file), 1):
                shard.count(group)
                shard.take_group(group)
                if number % tables.BATCH_ROWS == 0:
                    writer.write_batch(shard.batch())
        else:
            passed_over = shard.plan.joined
            for batch in file.iter_batches(
                tables.BATCH_ROWS, columns=ROW_COLUMNS, use_threads=False
            ):
                columns = [batch.column(c).to_pylist() for c in ROW_COLUMNS]
                rows_read = map(Origin, *columns)
                origins = [o for o in rows_read if o.source not in passed_over]
                shard.count(origins)
                for origin in origins:
                    shard.take(origin)
                writer.write_batch(shard.batch())
        writer.write_batch(shard.batch())


def _groups(file: pq.ParquetFile) -> Iterator[list[Origin]]:
    """The rows of a group shard, group by group: one group at a time is in memory."""

    def keyed() -> Iterator[tuple[bytes, Origin]]:
        for batch in file.iter_batches(tables.BATCH_ROWS, columns=[KEY, *ROW_COLUMNS]):
            columns = [batch.column(c).to_pylist() for c in (KEY, *ROW_COLUMNS)]
            for key, *origin in zip(*columns, strict=True):
                yield key, Origin(*origin)

    for _, members in groupby(keyed(), lambda row: (row[1].source, row[0])):
        yield [origin for _, origin in members]
