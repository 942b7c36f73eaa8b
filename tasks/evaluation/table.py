"""The per-pair score table: one row per pair, in the order of the split; all figures come from it.

    pair_id source split | reward_chosen reward_rejected margin | pair_margin |
    chosen_tokens rejected_tokens | correct tie

Rewards are float32, as the model gave them; `margin` is their float32 difference, exactly what a
reader gets by subtracting the columns. `pair_margin` is the margin asked for by the data, or null.
"""

from dataclasses import dataclass
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

SCHEMA = pa.schema(
    [
        ("pair_id", pa.string()),
        ("source", pa.string()),
        ("split", pa.string()),
        ("reward_chosen", pa.float32()),
        ("reward_rejected", pa.float32()),
        ("margin", pa.float32()),
        ("pair_margin", pa.float32()),
        ("chosen_tokens", pa.int32()),
        ("rejected_tokens", pa.int32()),
        ("correct", pa.bool_()),
        ("tie", pa.bool_()),
    ]
)
FIGURE_COLUMNS = [name for name in SCHEMA.names if name not in ("pair_id", "split")]


@dataclass(frozen=True)
class Scores:
    """The columns that figures are computed from, one entry per pair (`[N]` each)."""

    source: npt.NDArray[np.str_]
    chosen: Floats
    rejected: Floats
    margin: Floats
    pair_margin: Floats
    """0 where the data asks for none."""
    chosen_tokens: Counts
    rejected_tokens: Counts

    def __len__(self) -> int:
        return len(self.chosen)

    def of_source(self, source: str) -> "Scores":
        """The rows of one source."""
        rows = self.source == source
        return Scores(
            self.source[rows],
            self.chosen[rows],
            self.rejected[rows],
            self.margin[rows],
            self.pair_margin[rows],
            self.chosen_tokens[rows],
            self.rejected_tokens[rows],
        )


def score_table(pairs: pa.Table, split: str, chosen: Rewards, rejected: Rewards) -> pa.Table:
    """The score table of `pairs` (columns as tokenization wrote them), given their rewards."""
    margin = chosen - rejected
    columns = {
        "pair_id": pairs["pair_id"],
        "source": pairs["source"],
        "split": pa.repeat(split, len(pairs)),
        "reward_chosen": chosen,
        "reward_rejected": rejected,
        "margin": margin,
        "pair_margin": pairs["margin"],
        "chosen_tokens": _lengths(pairs["chosen_input_ids"]),
        "rejected_tokens": _lengths(pairs["rejected_input_ids"]),
        "correct": chosen > rejected,
        "tie": chosen == rejected,
    }
    return pa.table(columns).cast(SCHEMA)


def _lengths(column: pa.ChunkedArray) -> Any:
    return pc.call_function("list_value_length", [column])


def read_scores(path: Path) -> Scores:
    """The figures' columns of a score table's Parquet file."""
    return scores_of(pq.read_table(path, columns=FIGURE_COLUMNS))


def scores_of(table: pa.Table) -> Scores:
    """The figures' columns of a score table."""

    def floats(name: str) -> Floats:
        return table[name].to_numpy().astype(np.float64)

    return Scores(
        source=np.asarray(table["source"].to_pylist(), dtype=np.str_),
        chosen=floats("reward_chosen"),
        rejected=floats("reward_rejected"),
        margin=floats("margin"),
        pair_margin=np.nan_to_num(floats("pair_margin")),
        chosen_tokens=table["chosen_tokens"].to_numpy().astype(np.int64),
        rejected_tokens=table["rejected_tokens"].to_numpy().astype(np.int64),
    )
