"""Divides a global batch into micro-batches of nearly equal tokens, none over a budget of tokens.

    tokens of 7 items   9 4 4 3 2 2 1      2 processes, budget 10, at least 1 micro-step
    2 x 2 micro-batches [9] [4 2]          loads 9 6 5 5: process 0 computes 9 + 5 tokens,
                        [3 2] [4 1]        process 1 computes 6 + 5, in 2 micro-steps each

The items of a global batch stay the same, and so does the mean over its pairs. Their lengths alone
decide which process computes them in which micro-step. An item (a pair, or the pairs of a
comparison) is never cut. All processes have the same number of micro-steps, as collectives need.

Legend: N items of the global batch, K micro-steps, P processes.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Costs:
    """Tokens that a layout computes for items."""

    tokens: Numbers
    """[N], of each item alone."""
    sequences: Numbers | None = None
    """[N], rows of each item in a padded rectangle; None for a flat layout."""

    def of(self, rows: Sequence[int] | Numbers) -> "Costs":
        """The costs of some of the items."""
        at = np.asarray(rows, dtype=np.int64)
        return Costs(self.tokens[at], None if self.sequences is None else self.sequences[at])

    def micro_batch_tokens(self, rows: Sequence[int]) -> int:
        """Tokens computed if these items are one micro-batch."""
        at = np.asarray(rows, dtype=np.int64)
        if self.sequences is None or len(at) == 0:
            return int(self.tokens[at].sum())
        rows_of = self.sequences[at]
        return int((self.tokens[at] // rows_of).max() * rows_of.sum())

    def fitting(self, order: Numbers, budget: int, most: int) -> list[int]:
        """The first item of this order, and each later one that still fits into a micro-batch of
        at most `most` items and `budget` tokens."""
        batch, left = [int(order[0])], order[1:]
        while len(batch) < most and len(left):
            tokens = self.tokens[left] + self.micro_batch_tokens(batch)
            if self.sequences is not None:
                rows, own = self.sequences[left], self.sequences[batch]
                longest = np.maximum(self.tokens[left] // rows, (self.tokens[batch] // own).max())
                tokens = longest * (rows + own.sum())
            left = left[tokens <= budget]  # what does not fit now will not fit later
            batch += left[:1].tolist()
            left = left[1:]
        return batch


def deal(
    costs: Costs, processes: int, least: int = 1, budget: int | None = None
) -> list[list[list[int]]]:
    """The items of every micro-step and process, `[K][P]` ascending lists, which may be empty.

    `least`: minimum of micro-steps. `budget`: maximum of tokens in a micro-batch; an item that has
    more is a micro-batch by itself. K is the smallest number that keeps to both.
    """
    cut = _rows if costs.sequences is None else _rectangles
    steps = least
    while True:
        piles = cut(costs, steps * processes)
        if budget is None or all(
            len(p) < 2 or costs.micro_batch_tokens(p) <= budget for p in piles
        ):
            break
        steps += 1
    piles = [
        sorted(pile) for pile in sorted(piles, key=lambda p: (-costs.micro_batch_tokens(p), p))
    ]
    return _to_micro_steps(piles, steps, processes)


def _to_micro_steps(piles: list[list[int]], steps: int, processes: int) -> list[list[list[int]]]:
    """Piles, the largest first, to micro-steps; the order of processes alternates."""
    dealt: list[list[list[int]]] = []
    for step in range(steps):
        own = piles[step * processes : (step + 1) * processes]
        own += [[] for _ in range(processes - len(own))]
        dealt.append(own[::-1] if step % 2 else own)
    return dealt


def _rows(costs: Costs, count: int) -> list[list[int]]:
    """`count` piles of nearly equal sums: items go, the largest first, to the smallest pile."""
    piles: list[list[int]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for item in np.argsort(-costs.tokens, kind="stable").tolist():
        load, number = heapq.heappop(heap)
        piles[number].append(item)
        heapq.heappush(heap, (load + int(costs.tokens[item]), number))
    return piles


def _rectangles(costs: Costs, count: int) -> list[list[int]]:
    """At most `count` piles of items of like length, the largest rectangle as small as can be."""
    assert costs.sequences is not None
    longest = costs.tokens // costs.sequences
    order: list[int] = np.argsort(-longest, kind="stable").tolist()
    sizes = [(item, int(longest[item]), int(costs.sequences[item])) for item in order]
    low, high = 1, max(1, costs.micro_batch_tokens(order))
    while low < high:
        middle = (low + high) // 2
        if len(_runs(sizes, middle)) <= count:
            high = middle
        else:
            low = middle + 1
    return _runs(sizes, low)


def _runs(sizes: list[tuple[int, int, int]], limit: int) -> list[list[int]]:
    """Items (number, longest, sequences), the longest first, cut into runs.

    A run's rectangle has `limit` tokens at most, or is a single item.
    """
    runs: list[list[int]] = []
    length = rows = 0
    for item, longest, sequences in sizes:
        if runs and length * (rows + sequences) <= limit:
            runs[-1].append(item)
            rows += sequences
        else:
            runs.append([item])
            length, rows = longest, sequences
    return runs
