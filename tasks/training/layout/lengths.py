"""What every item of the training data costs to compute in a layout, found once before a run.

An item is a pair, or under a loss of comparisons the pairs of one comparison.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from datasets import Dataset

from tasks.tokenization.shards import IDS
from tasks.training.batches.columns import id_tables
from tasks.training.batches.comparisons import Comparisons, sequence_key
from tasks.training.layout.choice import ExactLayout
from tasks.training.layout.dealing import Costs
from tasks.training.layout.plan import Ids, shared_prefix

Item = tuple[Ids, ...]


def item_costs(
    items: Dataset | Comparisons, layout: ExactLayout, multiple: int | None = None
) -> Costs:
    """The costs of all items, `[N]`, in their order; padding is to a `multiple` of tokens."""
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
    """Ids of both sides of every pair, without a copy where Arrow allows."""
    found: dict[str, list[Ids]] = {side: [] for side in IDS}
    for table in id_tables(pairs):
        for side in IDS:
            column = table[side].combine_chunks()
            ends = np.cumsum(column.value_lengths().to_numpy())
            found[side] += np.split(column.flatten().to_numpy(), ends[:-1])
    return found


def _answers(sides: Mapping[str, list[Ids]], rows: Sequence[int], distinct: bool) -> Item:
    """The sequences of an item; of a comparison each distinct one once."""
    ids = [sides[side][row] for row in rows for side in IDS]
    return tuple({sequence_key(i): i for i in ids}.values()) if distinct else tuple(ids)


def _unique(item: Item) -> int:
    """Tokens of a group in a flat row: the prompt once, then what is left of each answer."""
    return sum(map(len, item)) - (len(item) - 1) * shared_prefix(item)
