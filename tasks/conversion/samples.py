"""The first rows of every source, by which its layout is recognised."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from tasks.conversion.first_pass.raw_row import raw_row
from tasks.conversion.first_pass.row_batches import ROW_COLUMNS, origins
from tasks.conversion.layouts.columns import Row
from tasks.conversion.unusable import Unusable


class Sample(NamedTuple):
    """Rows of one source, and the file and row that each comes from, in words."""

    rows: list[Row]
    places: list[str]


def first_rows(paths: Sequence[Path], sources: Sequence[str], count: int) -> dict[str, Sample]:
    """Up to `count` rows of each source that are JSON objects: its first, in row order."""
    samples = {source: Sample([], []) for source in sources}
    for path in paths:
        wanting = {name for name, found in samples.items() if len(found.rows) < count}
        if not wanting:
            break
        with pq.ParquetFile(path, pre_buffer=False) as file:
            named = set(file.read(columns=["source"])["source"].unique().to_pylist())
            if named & wanting:
                _take_first(file, samples, count)
    return samples


def _take_first(file: pq.ParquetFile, samples: dict[str, Sample], count: int) -> None:
    for batch in file.iter_batches(count, columns=ROW_COLUMNS, use_threads=False):
        for origin in origins(batch):
            found = samples.get(origin.source)
            if found is None or len(found.rows) >= count:
                continue
            with suppress(Unusable):
                found.rows.append(raw_row(origin.raw, origin.file))
                found.places.append(f"{origin.file} row {origin.row}")
        if all(len(found.rows) >= count for found in samples.values()):
            return
