"""The second pass over the shards: pairs that are dropped are taken out, the others counted.

In:  scratch/pairs, scratch/keys and the verdicts on all pairs.
Out: pairs/NNNNN.parquet; the contradictions' rows in quarantine; the counts of what is left.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Ledger, Quarantine, Workspace
from tasks.conversion import shards, tables
from tasks.conversion.duplicates import ALIKE, CONTRADICTION, DUPLICATE, KEEP, Array, Verdicts
from tasks.conversion.params import ConversionParams
from tasks.conversion.row_batches import ROW_COLUMNS

REASONS = {DUPLICATE: "duplicate", ALIKE: "duplicate", CONTRADICTION: "contradiction"}
_CONTRADICTED = (
    "found this pair in the data with chosen and rejected exchanged, expected one preference; "
    "decide for one in the source, or set conversion.contradictions: keep"
)


@dataclass
class Kept:
    """What is left, counted: sums only, divided once at the end."""

    sources: Sequence[str]
    codes: Array
    """The verdicts on all pairs as the params apply them."""
    ledger: Ledger = field(default_factory=Ledger)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """(source, split, what) -> n, where what is one of the facts of `_count`."""
    groups: list[Array] = field(default_factory=list[Array])
    held_out: list[Array] = field(default_factory=list[Array])

    def add(self, keys: Array, codes: Array) -> None:
        """Counts one shard: its records, and the verdicts as the params apply them."""
        for number, source in enumerate(self.sources):
            mine = keys["source"] == number
            if not mine.any():
                continue
            for code in np.unique(codes[mine]):
                n = int((mine & (codes == code)).sum())
                if code == KEEP:
                    self.ledger.count_out(source, n)
                else:
                    self.ledger.drop(source, REASONS[int(code)], n)
            for split, side in (("train", ~keys["eval"]), ("eval", keys["eval"])):
                self._count(source, split, keys, mine & side & (codes == KEEP))
        kept = codes == KEEP
        self.groups.append(keys["group"][kept])
        self.held_out.append(keys["eval"][kept])

    def _count(self, source: str, split: str, keys: Array, which: Array) -> None:
        longer, label = keys["longer"][which], ~keys["tie"][which]
        facts = {
            "pairs": len(label),
            "ties": len(label) - label.sum(),
            "longer": ((longer > 0) & label).sum(),
            "equal": ((longer == 0) & label).sum(),
            "conversational": keys["conversational"][which].sum(),
            "with_margin": keys["has_margin"][which].sum(),
            "with_preference": keys["has_preference"][which].sum(),
            "with_comparison": keys["has_comparison"][which].sum(),
        }
        for what, n in facts.items():
            self.counts[source, split, what] += int(n)


def counted(arrays: Sequence[Array], codes: Array, sources: Sequence[str]) -> Kept:
    """What is left of all shards, given their records and the verdicts as the params apply them."""
    kept, start = Kept(sources, codes), 0
    for keys in arrays:
        kept.add(keys, codes[start : start + len(keys)])
        start += len(keys)
    return kept


def applied(verdicts: Verdicts, params: ConversionParams) -> npt.NDArray[np.uint8]:
    """The verdicts with `KEEP` in place of those that the params do not act on."""
    codes = verdicts.codes.copy()
    if params.duplicates == "keep":
        codes[(codes == DUPLICATE) | (codes == ALIKE)] = KEEP
    if params.contradictions == "keep":
        codes[codes == CONTRADICTION] = KEEP
    return codes


def select(workspace: Workspace, rows: Path, codes: Array) -> list[dict[str, Any]]:
    """Writes the pairs of a shard that are kept, and its contradictions' quarantined rows, which
    are also the result. `codes`: the verdicts on its pairs."""
    name = f"{rows.stem}.parquet"
    before = workspace.path / shards.RAW_PAIRS / name
    # Renaming one link of a file over another one of it would leave both.
    (workspace.path / shards.PAIRS / name).unlink(missing_ok=True)
    with workspace.writing(f"{shards.PAIRS}/{name}") as out:
        if (codes == KEEP).all():
            out.unlink(missing_ok=True)
            os.link(before, out)
        else:
            _write_kept(before, out, codes)
    if not (codes == CONTRADICTION).any():
        return []
    origins = _origins(before, codes == CONTRADICTION)
    quarantine = Quarantine("conversion")
    for source, file, row, raw in _raw_rows(rows, origins):
        quarantine.add(source, file, row, "contradiction", "chosen", _CONTRADICTED, raw)
    with workspace.writing(f"{shards.QUARANTINES}/{rows.stem}{shards.CONTRADICTIONS}.parquet") as o:
        quarantine.write(o)
    return quarantine.rows


def _write_kept(before: Path, out: Path, codes: Array) -> None:
    start = 0
    with pq.ParquetFile(before) as file, tables.open_writer(out) as writer:
        for number in range(file.num_row_groups):
            group: Any = file.read_row_group(number, use_threads=False)
            keep = codes[start : start + len(group)] == KEEP
            start += len(group)
            for batch in group.combine_chunks().to_batches():
                writer.write_batch(batch if keep.all() else batch.filter(pa.array(keep)))


def _origins(pairs: Path, mask: Array) -> set[tuple[str, str, int]]:
    table = pq.read_table(pairs, columns=["source", "file", "row"]).filter(pa.array(mask))
    return set(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def _raw_rows(rows: Path, origins: set[tuple[str, str, int]]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    with pq.ParquetFile(rows) as file:
        for batch in file.iter_batches(tables.BATCH_ROWS, columns=ROW_COLUMNS):
            columns = [batch.column(name).to_pylist() for name in ROW_COLUMNS]
            found += [o for o in zip(*columns, strict=True) if o[:3] in origins]
    return found
