"""Writes the shards of kept pairs, and quarantines the rows of contradictions.

In:  scratch/pairs and the verdicts on all pairs.
Out: pairs/NNNNN.parquet; the contradictions' rows in quarantine.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Quarantine, Workspace
from tasks.conversion import shards
from tasks.conversion.first_pass import tables
from tasks.conversion.first_pass.row_batches import ROW_COLUMNS
from tasks.conversion.params import ConversionParams
from tasks.conversion.second_pass.duplicates import (
    ALIKE,
    CONTRADICTION,
    DUPLICATE,
    KEEP,
    Array,
    Verdicts,
    with_preferences,
)

_CONTRADICTED = (
    "found this pair in the data with chosen and rejected exchanged, expected one preference; "
    "decide for one in the source, or set conversion.contradictions: majority, soft or keep"
)


def applied(verdicts: Verdicts, params: ConversionParams) -> npt.NDArray[np.uint8]:
    """The verdicts with `KEEP` in place of those that the params do not act on."""
    codes = verdicts.codes.copy()
    if params.duplicates == "keep":
        codes[(codes == DUPLICATE) | (codes == ALIKE)] = KEEP
    if params.contradictions == "keep":
        codes[codes == CONTRADICTION] = KEEP
    return codes


def select(
    workspace: Workspace, rows: Path, codes: Array, preferences: Array | None = None
) -> list[dict[str, Any]]:
    """Writes the pairs of a shard that are kept, and its contradictions' quarantined rows, which
    are also the result. `codes`: the verdicts on its pairs; `preferences`: those that pairs get
    instead of their own, NaN for none."""
    name = f"{rows.stem}.parquet"
    before = workspace.path / shards.RAW_PAIRS / name
    # Renaming one link of a file over another one of it would leave both.
    (workspace.path / shards.PAIRS / name).unlink(missing_ok=True)
    with workspace.writing(f"{shards.PAIRS}/{name}") as out:
        if (codes == KEEP).all() and preferences is None:
            out.unlink(missing_ok=True)
            try:
                os.link(before, out)
            except OSError:  # not every file system gives a file two names
                shutil.copyfile(before, out)
        else:
            _write_kept(before, out, codes, preferences)
    if not (codes == CONTRADICTION).any():
        return []
    origins = _origins(before, codes == CONTRADICTION)
    quarantine = Quarantine("conversion")
    for source, file, row, raw in _raw_rows(rows, origins):
        quarantine.add(source, file, row, "contradiction", "chosen", _CONTRADICTED, raw)
    with workspace.writing(f"{shards.QUARANTINES}/{rows.stem}{shards.CONTRADICTIONS}.parquet") as o:
        quarantine.write(o)
    return quarantine.rows


def _write_kept(before: Path, out: Path, codes: Array, preferences: Array | None) -> None:
    start = 0
    with pq.ParquetFile(before) as file, tables.open_writer(out) as writer:
        for number in range(file.num_row_groups):
            group: Any = file.read_row_group(number, use_threads=False)
            mine = slice(start, start + len(group))
            keep = codes[mine] == KEEP
            start += len(group)
            if preferences is not None:
                group = _replaced(group, preferences[mine])
            for batch in group.combine_chunks().to_batches():
                writer.write_batch(batch if keep.all() else batch.filter(pa.array(keep)))


def _replaced(group: pa.Table, preferences: Array) -> pa.Table:
    place = group.schema.get_field_index("preference")
    preference = with_preferences(group.column(place).to_numpy(), preferences)
    return group.set_column(place, group.schema.field(place), pa.array(preference))


def _origins(pairs: Path, mask: Array) -> set[tuple[str, str, int]]:
    table = pq.read_table(pairs, columns=["source", "file", "row"]).filter(pa.array(mask))
    return set(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def _raw_rows(rows: Path, origins: set[tuple[str, str, int]]) -> list[tuple[Any, ...]]:
    rows_found: list[tuple[Any, ...]] = []
    with pq.ParquetFile(rows) as file:
        for batch in file.iter_batches(tables.BATCH_ROWS, columns=ROW_COLUMNS):
            columns = [batch.column(name).to_pylist() for name in ROW_COLUMNS]
            rows_found += [o for o in zip(*columns, strict=True) if o[:3] in origins]
    return rows_found
