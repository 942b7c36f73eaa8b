"""Rows of an ingestion shard as they are taken up: in stretches of one source, or one by one."""

from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa

from tasks.conversion.joining import Origin

ROW_COLUMNS = ["source", "file", "row", "raw"]


def runs(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows in stretches of one source each, with its name: nearly always that is all rows."""
    start = 0
    for source, run in groupby(rows.column("source").to_pylist()):
        count = len([*run])
        yield source, rows.slice(start, count)
        start += count


def origins(rows: pa.RecordBatch) -> Iterator[Origin]:
    """The rows one by one."""
    return map(Origin, *[rows.column(name).to_pylist() for name in ROW_COLUMNS])
