"""The per-pair score table: one row per pair, in the order of the split; all figures come from it.

    pair_id source split comparison preference weight pair_margin | reward_chosen reward_rejected
    margin correct tie | chosen_tokens rejected_tokens shared_tokens | chosen_id rejected_id

Rewards are float32, as the model gave them; `margin` is their float32 difference, exactly what a
reader gets by subtracting the columns. `pair_margin` is the margin asked for by the data, or null.
`correct` and `tie` speak of the rewards alone; with `preference` 0.5 neither side is the right one,
and `correct` is null. `shared_tokens` is how many leading tokens both sides have in common: the
prompt, in all but freak cases. `chosen_id` and `rejected_id` name the token ids of a side: equal
for an answer that stands in several pairs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Floats = npt.NDArray[np.float64]
Rewards = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]
Strings = npt.NDArray[np.str_]
Mask = npt.NDArray[np.bool_]
TokenIds = npt.NDArray[np.int32]

SIDES = ("chosen", "rejected")
UNDECIDED = 0.5
"""The preference of a pair neither side of which is the better one."""

SCHEMA = pa.schema(
    [
        ("pair_id", pa.string()),
        ("source", pa.string()),
        ("split", pa.string()),
        ("comparison", pa.string()),
        ("preference", pa.float32()),
        ("weight", pa.float32()),
        ("pair_margin", pa.float32()),
        ("reward_chosen", pa.float32()),
        ("reward_rejected", pa.float32()),
        ("margin", pa.float32()),
        ("correct", pa.bool_()),
        ("tie", pa.bool_()),
        ("chosen_tokens", pa.int32()),
        ("rejected_tokens", pa.int32()),
        ("shared_tokens", pa.int32()),
        ("chosen_id", pa.string()),
        ("rejected_id", pa.string()),
    ]
)


@dataclass(frozen=True)
class Scores:
    """The columns that figures are computed from, one entry per pair (`[N]` each)."""

    pair_id: Strings
    source: Strings
    group: Counts
    """The number of the pair's group, within which pairs are not independent: all pairs of one
    prompt where prompts are known, else of one comparison, else the pair alone."""
    preference: Floats
    chosen: Floats
    rejected: Floats
    margin: Floats
    pair_margin: Floats
    """0 where the data asks for none."""
    chosen_tokens: Counts
    rejected_tokens: Counts
    shared_tokens: Counts
    chosen_id: Strings
    rejected_id: Strings

    def __len__(self) -> int:
        return len(self.chosen)

    def take(self, rows: Mask | Counts) -> "Scores":
        """These rows: a mask `[N]`, or positions."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def of_source(self, source: str) -> "Scores":
        """The rows of one source."""
        return self.take(self.source == source)

    @property
    def decided(self) -> Mask:
        """Where one side is the better one."""
        return self.preference != UNDECIDED

    def order(self) -> Counts:
        """Positions that sort by pair: sums over rows so sorted do not depend on their order."""
        return np.lexsort((self.rejected, self.chosen, self.source, self.pair_id))


def score_table(pairs: pa.Table, split: str, chosen: Rewards, rejected: Rewards) -> pa.Table:
    """The score table of `pairs` (columns as `read_windows` gives them), given their rewards."""
    undecided = pairs["preference"].to_numpy() == UNDECIDED
    columns = {
        "pair_id": pairs["pair_id"],
        "source": pairs["source"],
        "split": pa.repeat(split, len(pairs)),
        "comparison": pairs["comparison"],
        "preference": pairs["preference"],
        "weight": pairs["weight"],
        "pair_margin": pairs["margin"],
        "reward_chosen": chosen,
        "reward_rejected": rejected,
        "margin": chosen - rejected,
        "correct": pa.array(chosen > rejected, mask=undecided),
        "tie": chosen == rejected,
        "chosen_tokens": _lengths(pairs["chosen_input_ids"]),
        "rejected_tokens": _lengths(pairs["rejected_input_ids"]),
        "shared_tokens": pairs["shared_prefix_length"],
        "chosen_id": _names(sequences(pairs["chosen_input_ids"])),
        "rejected_id": _names(sequences(pairs["rejected_input_ids"])),
    }
    return pa.table(columns).cast(SCHEMA)


def sequences(column: pa.ChunkedArray) -> list[TokenIds]:
    """One int32 view per row; a window's ids are copied at most once."""
    array: Any = column.combine_chunks()
    offsets, values = array.offsets.to_numpy(), array.values.to_numpy()
    return [values[a:b] for a, b in pairwise(offsets)]


def _lengths(column: pa.ChunkedArray) -> Any:
    return pc.call_function("list_value_length", [column])


def _names(ids: Iterable[TokenIds]) -> list[str]:
    return [blake2b(row.tobytes(), digest_size=8).hexdigest() for row in ids]


def read_scores(path: Path) -> Scores:
    """The figures' columns of a score table's Parquet file."""
    return scores_of(pq.read_table(path))


def scores_of(table: pa.Table) -> Scores:
    """The figures' columns of a score table."""

    def floats(name: str) -> Floats:
        return table[name].to_numpy().astype(np.float64)

    def counts(name: str) -> Counts:
        return table[name].to_numpy().astype(np.int64)

    def strings(name: str) -> Strings:
        return np.asarray(table[name].to_pylist(), dtype=np.str_)

    pair_ids = table["pair_id"].to_pylist()
    groups = table["comparison"].to_pylist()
    return Scores(
        pair_id=strings("pair_id"),
        source=strings("source"),
        group=numbered([g or p for g, p in zip(groups, pair_ids, strict=True)]),
        preference=floats("preference"),
        chosen=floats("reward_chosen"),
        rejected=floats("reward_rejected"),
        margin=floats("margin"),
        pair_margin=np.nan_to_num(floats("pair_margin")),
        chosen_tokens=counts("chosen_tokens"),
        rejected_tokens=counts("rejected_tokens"),
        shared_tokens=counts("shared_tokens"),
        chosen_id=strings("chosen_id"),
        rejected_id=strings("rejected_id"),
    )


def numbered(names: Sequence[str]) -> Counts:
    """The place of each name, `[N]`, among the sorted distinct ones: numbers that compare and sort
    as the names do, at a fraction of the cost."""
    return np.unique(np.asarray(names, np.str_), return_inverse=True)[1].astype(np.int64)
