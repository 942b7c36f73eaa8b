"""The first rows of every source, by which its layout is recognised."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq

from tasks.conversion.layouts.columns import Row
from tasks.conversion.shard_pairs import parsed
from tasks.conversion.unusable import Unusable


def first_rows(paths: Sequence[Path], sources: Sequence[str], count: int) -> dict[str, list[Row]]:
    """Up to `count` rows of each source that are JSON objects: its first, in row order."""
    rows: dict[str, list[Row]] = {source: [] for source in sources}
    for path in paths:
        wanting = {name for name, found in rows.items() if len(found) < count}
        if not wanting:
            break
        with pq.ParquetFile(path, pre_buffer=False) as file:
            named = set(file.read(columns=["source"])["source"].unique().to_pylist())
            if named & wanting:
                _take_first(file, rows, count)
    return rows


def _take_first(file: pq.ParquetFile, rows: dict[str, list[Row]], count: int) -> None:
    columns = ["source", "raw"]
    for batch in file.iter_batches(count, columns=columns, use_threads=False):
        for source, raw in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            if source in rows and len(rows[source]) < count:
                with suppress(Unusable):
                    rows[source].append(parsed(raw))
        if all(len(found) >= count for found in rows.values()):
            return
