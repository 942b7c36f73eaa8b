"""Comparisons: all pairs that were made from one list of ranked answers, kept together.

    pairs A>B, A>C, B>C with one `comparison`  ->  one item of a batch: three sequences, not six

A batch of a loss of comparisons is made of whole comparisons: they are the items that the sampler
shuffles, that processes share and that a resumed run skips. A pair without a comparison is one of
its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset

from tasks.errors import DataError, shown
from tasks.tokenization.shards import IDS

Example = Mapping[str, Any]
Place = tuple[int, int]
"""A sequence by the first pair that has it: number of the pair; 0 for chosen, 1 for rejected."""


class Comparisons(torch.utils.data.Dataset[list[Example]]):
    """Lists of the pairs of one comparison each, in the order in which comparisons first appear."""

    def __init__(self, pairs: Dataset) -> None:
        self.pairs = pairs
        self.groups = grouped(comparison_ids(pairs))

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> list[Example]:
        return [self.pairs[row] for row in self.groups[index]]


def comparison_ids(pairs: Dataset) -> list[str | None]:
    """The comparison of every pair."""
    if "comparison" not in pairs.column_names:
        return [None] * len(pairs)
    return list(pairs["comparison"])


def grouped(names: Iterable[str | None]) -> list[list[int]]:
    """Rows that share a name, by first appearance; a row without a name stands alone."""
    groups: dict[str | int, list[int]] = {}
    for row, name in enumerate(names):
        groups.setdefault(row if name is None else name, []).append(row)
    return list(groups.values())


def answers(examples: Sequence[Example]) -> dict[bytes, Place]:
    """The distinct sequences of a comparison's pairs, and where each is found first."""
    found: dict[bytes, Place] = {}
    for number, example in enumerate(examples):
        for side, name in enumerate(IDS):
            found.setdefault(sequence_key(example[name]), (number, side))
    return found


def sequence_key(ids: Any) -> bytes:
    """Equal for equal ids only."""
    return np.asarray(ids, dtype=np.int64).tobytes()


def ranking(examples: Sequence[Example]) -> list[Place]:
    """The answers of a comparison, best first, as its pairs order them.

    Raises:
        DataError: the pairs leave open which of two answers is better, or contradict each other.
    """
    places = answers(examples)
    better: dict[bytes, set[bytes]] = {key: set() for key in places}
    for example in examples:
        chosen, rejected = (sequence_key(example[name]) for name in IDS)
        better[rejected].add(chosen)
    order: list[Place] = []
    while better:
        best = [key for key, above in better.items() if not above]
        if len(best) != 1:
            fault = "contradict each other" if not best else "do not say which of two is better"
            raise DataError(
                f"comparison {shown(examples[0].get('comparison'))}: its {len(examples)} pairs "
                f"{fault}, and plackett_luce needs one order of all answers; use loss type "
                "all_pairs, or conversion's pairs of all answers without ties: where another list "
                "has a pair, too, conversion.duplicates: keep leaves it in both, and an override "
                "takes it out of its list"
            )
        order.append(places[best[0]])
        del better[best[0]]
        for above in better.values():
            above.discard(best[0])
    return order
