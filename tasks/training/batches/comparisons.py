"""Comparisons: all pairs that were made from one list of ranked answers, kept together.

    pairs A>B, A>C, B>C with one `comparison`  ->  one item of a batch: three sequences, not six

Under a loss of comparisons, whole comparisons are the items that the sampler shuffles, that are
divided among processes and that a resumed run skips. A pair without one is a comparison by itself.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset

from tasks.conversion.preference.pair import TIE
from tasks.errors import DataError, shown
from tasks.tokenization.shards import IDS
from tasks.training.layout.plan import sequence_key

Example = Mapping[str, Any]
Place = tuple[int, int]
"""Where a sequence stands: number of the pair; 0 for chosen, 1 for rejected."""


class Comparisons(torch.utils.data.Dataset[list[Example]]):
    """One list of pairs for every comparison, in the order in which comparisons first appear."""

    def __init__(self, pairs: Dataset) -> None:
        self.pairs = pairs
        self.groups = grouped(comparison_ids(pairs))

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> list[Example]:
        return [self.pairs[row] for row in self.groups[index]]


def comparison_ids(pairs: Dataset) -> list[Any]:
    """The comparison's name (a text, a number) of every pair; None where it has none."""
    if "comparison" not in pairs.column_names:
        return [None] * len(pairs)
    return list(pairs["comparison"])


def grouped(names: Iterable[Hashable]) -> list[list[int]]:
    """Rows that share a name, by first appearance; a row without a name (None) stands alone."""
    groups: dict[Hashable, list[int]] = {}
    for row, name in enumerate(names):
        groups.setdefault((row,) if name is None else name, []).append(row)
    return list(groups.values())


def answers(examples: Sequence[Example]) -> dict[bytes, Place]:
    """The distinct sequences of a comparison's pairs, and where each of them first stands."""
    places: dict[bytes, Place] = {}
    for number, example in enumerate(examples):
        for side, name in enumerate(IDS):
            places.setdefault(sequence_key(example[name]), (number, side))
    return places


def ranking(examples: Sequence[Example]) -> list[list[Place]]:
    """The answers of a comparison as its pairs order them, level by level, the best level first.

    A pair of preference 0.5 puts both of its answers on one level.

    Raises:
        DataError: the pairs do not say which of two answers is better, or contradict each other.
    """
    places = answers(examples)
    level = {key: key for key in places}
    strict: list[tuple[bytes, bytes]] = []
    for example in examples:
        chosen, rejected = (sequence_key(example[name]) for name in IDS)
        if example.get("preference") == TIE:
            one, other = level[chosen], level[rejected]
            level = {key: one if own == other else own for key, own in level.items()}
        else:
            strict.append((chosen, rejected))
    better: dict[bytes, set[bytes]] = {name: set() for name in level.values()}
    for chosen, rejected in strict:
        better[level[rejected]].add(level[chosen])
    order: list[list[Place]] = []
    while better:
        best = [name for name, above in better.items() if not above]
        if len(best) != 1:
            raise _no_order(examples, contradict=not best)
        order.append([place for key, place in places.items() if level[key] == best[0]])
        del better[best[0]]
        for above in better.values():
            above.discard(best[0])
    return order


def level_starts(levels: Sequence[Sequence[Place]]) -> list[int]:
    """For every answer, best first, the index of the first answer of its level: 0 1 1 3 if the
    second and the third are tied."""
    starts: list[int] = []
    for level in levels:
        starts += [len(starts)] * len(level)
    return starts


def _no_order(examples: Sequence[Example], *, contradict: bool) -> DataError:
    first = examples[0]
    fault = "contradict each other" if contradict else "do not say which of two is better"
    return DataError(
        f"comparison {shown(first.get('comparison'))} (its first pair is "
        f"{first.get('pair_id')}): its {len(examples)} pairs {fault}, and plackett_luce needs one "
        "order of all answers; use loss type all_pairs, or conversion's pairs of all answers with "
        "ties: keep: where another list has a pair, too, conversion.duplicates: keep leaves it in "
        "both, and an override takes it out of its list"
    )
