"""Rows of an ingestion shard as they are taken up: in stretches of one source, in pieces of their
bytes, or one by one."""

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.conversion.first_pass.joining import Origin

ORIGIN_COLUMNS = ["source", "file", "row"]
ROW_COLUMNS = [*ORIGIN_COLUMNS, "raw"]
MOST_STRETCHES = 64
"""So many slices cost less than to take all rows one by one."""


def runs(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows in stretches of one source each, with its name: nearly always that is all rows."""
    sources = rows.column("source")
    names = sources.unique().to_pylist()
    if len(names) == 1:
        yield names[0], rows
        return
    start = 0
    for source, run in groupby(sources.to_pylist()):
        count = len([*run])
        yield source, rows.slice(start, count)
        start += count


def pieces(rows: pa.RecordBatch, most: int) -> Iterator[tuple[int, list[memoryview]]]:
    """The place of its first row, and its rows' bytes as they stand in the batch, of every piece.

    A null has no bytes.
    """
    raw = rows.column("raw")
    _, offsets, data = raw.buffers()
    bounds = np.frombuffer(offsets, np.int32)[raw.offset : raw.offset + len(raw) + 1].tolist()
    whole = memoryview(data) if data is not None else memoryview(b"")
    for first in range(0, len(raw), most):
        yield first, [whole[a:b] for a, b in pairwise(bounds[first : first + most + 1])]


def in_this_order(
    rows: pa.RecordBatch, order: npt.NDArray[Any], more: pa.RecordBatch | None = None
) -> pa.RecordBatch:
    """The rows, and those of `more` as if they stood behind them, in another order: copied once, in
    stretches that stay as they are, where these are few."""
    count = rows.num_rows
    cuts = np.flatnonzero((np.diff(order) != 1) | (order[1:] == count)) + 1
    if len(cuts) > MOST_STRETCHES:
        whole = rows if more is None else pa.concat_batches([rows, more])
        return whole.take(pa.array(order))
    stretches: list[pa.RecordBatch] = []
    for a, b in pairwise([0, *cuts.tolist(), len(order)]):
        start = int(order[a])
        if more is None or start < count:
            stretches.append(rows.slice(start, b - a))
        else:
            stretches.append(more.slice(start - count, b - a))
    return pa.concat_batches(stretches)


def origins(rows: pa.RecordBatch) -> Iterator[Origin]:
    """The rows one by one."""
    return map(Origin, *[rows.column(name).to_pylist() for name in ROW_COLUMNS])
