"""Pass 1: the rows of one ingestion shard become pairs.

In:  rows/NNNNN.parquet (source, file, row, raw), of which the rows of sources that are joined are
     passed over; or a shard of the latter, laid out by `groups` so that what belongs together
     stands together (with a column `key`).
Out: the shard's pairs before duplicates are taken out, a small record per pair that finds the
     duplicates, the quarantined rows, and a summary: ledger, first examples, notes.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import BackgroundCalls, Workspace, prefetch, uncollected
from tasks.conversion import shards
from tasks.conversion.first_pass import tables
from tasks.conversion.first_pass.joining import Origin
from tasks.conversion.first_pass.lanes import Lanes
from tasks.conversion.first_pass.row_batches import ROW_COLUMNS
from tasks.conversion.first_pass.shard_pairs import ShardPairs
from tasks.conversion.first_pass.shard_records import write_records
from tasks.conversion.first_pass.stretches import without_repeats
from tasks.conversion.plan import Plan
from tasks.conversion.tolerance import first_examples

KEY = "key"


def convert_shard(
    workspace: Workspace, path: Path, plan: Plan
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Writes what the shard's rows become; its summary, which is kept as the unit's, and the
    quarantined rows."""
    shard = ShardPairs(plan)
    name = path.stem
    with (
        workspace.writing(f"{shards.RAW_PAIRS}/{name}.parquet", "by_mark") as out,
        uncollected(),
    ):
        _write_pairs(shard, path, out)
    records = np.concatenate(shard.key_arrays)
    hashes, records = without_repeats(np.concatenate(shard.hashes), records)
    with workspace.writing(f"{shards.KEY_ARRAYS}/{name}.npy", "by_mark") as out:
        write_records(out, records, hashes)
    if shard.quarantine.rows:
        with workspace.writing(f"{shards.QUARANTINES}/{name}.parquet", "by_mark") as out:
            shard.quarantine.write(out)
    summary = {
        "ledger": shard.ledger.to_json(),
        "examples": first_examples(shard.quarantine),
        "labels": {source: dict(c) for source, c in shard.labels.items()},
        "notes": {source: dict(sorted(c.items())) for source, c in shard.notes.items()},
        "overridden": {action: dict(sorted(c.items())) for action, c in shard.overridden.items()},
        "decided": sorted(shard.decided),
    }
    workspace.finish(f"rows-{name}", summary)
    return summary, shard.quarantine.rows


def _write_pairs(shard: ShardPairs, rows: Path, out: Path) -> None:
    """All pairs, as they are handed on where none is dropped; read ahead, and written behind."""
    with (
        pq.ParquetFile(rows, pre_buffer=False) as file,
        tables.open_writer(out) as writer,
        closing(_batches(shard, file)) as batches,  # what is read ahead, before the file is closed
        BackgroundCalls() as behind,
    ):
        for batch in batches:
            if batch.num_rows:
                behind.put(writer.write_batch, batch)


def _batches(shard: ShardPairs, file: pq.ParquetFile) -> Generator[pa.RecordBatch]:
    if KEY in file.schema_arrow.names:
        for number, group in enumerate(_groups(file), 1):
            shard.count(group)
            shard.take_group(group)
            if number % tables.BATCH_ROWS == 0:
                yield shard.batch()
    else:
        lanes = Lanes(shard)
        read = file.iter_batches(tables.BATCH_ROWS, columns=ROW_COLUMNS, use_threads=False)
        for rows in prefetch(read):
            yield lanes.take(rows)
    yield shard.batch()


def _groups(file: pq.ParquetFile) -> Iterator[list[Origin]]:
    """The rows of a group shard, group by group: one group at a time is in memory."""

    def keyed() -> Iterator[tuple[bytes, Origin]]:
        for batch in file.iter_batches(tables.BATCH_ROWS, columns=[KEY, *ROW_COLUMNS]):
            columns = [batch.column(c).to_pylist() for c in (KEY, *ROW_COLUMNS)]
            for key, *origin in zip(*columns, strict=True):
                yield key, Origin(*origin)

    for _, members in groupby(keyed(), lambda row: (row[1].source, row[0])):
        yield [origin for _, origin in members]
