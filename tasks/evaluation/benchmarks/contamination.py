"""Benchmark prompts that the model was trained on: by the group that conversion gives a prompt.

Equal groups are equal prompts but for case, whitespace and Unicode forms.
"""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks.evaluation.benchmarks.items import Item

EXAMPLES = 20


def training_groups(conversion: Path) -> set[str]:
    """The prompt groups of the training pairs."""
    trained_on = [("split", "=", "train")]
    table = pq.read_table(conversion / "pairs", columns=["group"], filters=trained_on)
    return set(table["group"].unique().to_pylist())


def contamination(items: Sequence[Item], trained_on: Set[str]) -> dict[str, Any]:
    """`{items, shared, share, ids}`: items whose prompt stands in the training pairs; `ids` of the
    first 20 of them, in the order of the files."""
    shared = [item.id for item in items if item.group in trained_on]
    return {
        "items": len(items),
        "shared": len(shared),
        "share": len(shared) / len(items),
        "ids": shared[:EXAMPLES],
    }
