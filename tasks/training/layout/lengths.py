"""Tokens that every item of the training data costs in a layout, computed once before a run.

An item is a pair, or under a loss of comparisons the pairs of one comparison.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from datasets import Dataset

from tasks.tokenization.shards import IDS
from tasks.training.batches.columns import id_tables
from tasks.training.batches.comparisons import Comparisons
from tasks.training.layout.choice import ExactLayout
from tasks.training.layout.dealing import Costs
from tasks.training.layout.plan import Ids, sequence_key, shared_prefix

Item = tuple[Ids, ...]


def item_costs(
    items: Dataset | Comparisons, layout: ExactLayout, multiple: int | None = None
) -> Costs:
    """The costs of all items, in their order; padded lengths are rounded up to a `multiple`."""
    pairs = items.pairs if isinstance(items, Comparisons) else items
    sides = _sides(pairs)
    groups: Sequence[Sequence[int]] = (
        items.groups if isinstance(items, Comparisons) else [[row] for row in range(len(pairs))]
    )
    answers = [_answers(sides, group, isinstance(items, Comparisons)) for group in groups]
    if layout == "padded":
        rows = np.array([len(item) for item in answers], dtype=np.int64)
        longest = np.array([max(map(len, item)) for item in answers], dtype=np.int64)
        step = multiple or 1
        return Costs(rows * (-(-longest // step) * step), rows)
    shared = layout == "prefix_shared"
    tokens = [_unique(item) if shared else sum(map(len, item)) for item in answers]
    return Costs(np.array(tokens, dtype=np.int64))


def _sides(pairs: Dataset) -> Mapping[str, list[Ids]]:
    """Ids of both sides of every pair, without a copy where Arrow allows it."""
    sides: dict[str, list[Ids]] = {side: [] for side in IDS}
    for table in id_tables(pairs):
        for side in IDS:
            column = table[side].combine_chunks()
            ends = np.cumsum(column.value_lengths().to_numpy())
            sides[side] += np.split(column.flatten().to_numpy(), ends[:-1])
    return sides


def _answers(sides: Mapping[str, list[Ids]], rows: Sequence[int], distinct: bool) -> Item:
    """The sequences of an item's pairs; if `distinct`, equal ones once."""
    ids = [sides[side][row] for row in rows for side in IDS]
    return tuple({sequence_key(i): i for i in ids}.values()) if distinct else tuple(ids)


def _unique(item: Item) -> int:
    """Tokens of an item in a flat row: its prompt once, and the rest of each answer."""
    return sum(map(len, item)) - (len(item) - 1) * shared_prefix(item)
