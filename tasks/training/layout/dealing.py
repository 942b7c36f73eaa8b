"""One global batch dealt into micro-batches: none over a budget of tokens, all nearly equal.

    tokens of 7 items   9 4 4 3 2 2 1      2 processes, budget 10, at least 1 micro-step
    2 x 2 micro-batches [9] [4 2]          loads 9 6 5 5: process 0 computes 9 + 5 tokens,
                        [3 2] [4 1]        process 1 computes 6 + 5, in 2 micro-steps each

The items of a global batch stay the same, so the mean over its pairs does; only who computes them,
and in which micro-step, is decided here, from their lengths alone. An item (a pair, or the pairs of
a comparison) is never cut. Every process has the same number of micro-steps, as collectives need.

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
    """What items cost to compute, by what a layout computes of them."""

    tokens: Numbers
    """[N], what is computed of an item that lies alone."""
    sequences: Numbers | None = None
    """[N], rows of an item in a rectangle that is as long as its longest; None for a flat row."""

    def of(self, rows: Sequence[int] | Numbers) -> "Costs":
        """The costs of some of the items."""
        at = np.asarray(rows, dtype=np.int64)
        return Costs(self.tokens[at], None if self.sequences is None else self.sequences[at])

    def together(self, rows: Sequence[int]) -> int:
        """Tokens computed where these items are one micro-batch."""
        at = np.asarray(rows, dtype=np.int64)
        if self.sequences is None or len(at) == 0:
            return int(self.tokens[at].sum())
        rows_of = self.sequences[at]
        return int((self.tokens[at] // rows_of).max() * rows_of.sum())

    def filled(self, order: Numbers, budget: int, most: int) -> list[int]:
        """Of the items in this order the first, and whichever come next that fit beside those
        before them: `most` items and `budget` tokens together."""
        taken, left = [int(order[0])], order[1:]
        while len(taken) < most and len(left):
            tokens = self.tokens[left] + self.together(taken)
            if self.sequences is not None:
                rows, own = self.sequences[left], self.sequences[taken]
                longest = np.maximum(self.tokens[left] // rows, (self.tokens[taken] // own).max())
                tokens = longest * (rows + own.sum())
            left = left[tokens <= budget]  # with more items the others fit no better
            taken += left[:1].tolist()
            left = left[1:]
        return taken


def deal(
    costs: Costs, processes: int, least: int = 1, budget: int | None = None
) -> list[list[list[int]]]:
    """For every micro-step and every process the items, ascending: `[K][P]` lists; may be empty.

    `least`: micro-steps at least. `budget`: tokens that a micro-batch may have; an item that has
    more is a micro-batch of its own. K is the smallest number that keeps to both.
    """
    count = len(costs.tokens)
    cut = _rows if costs.sequences is None else _rectangles
    steps = least
    while True:
        piles = cut(costs, steps * processes)
        fits = budget is None or all(len(p) < 2 or costs.together(p) <= budget for p in piles)
        if fits or steps * processes >= count:
            break
        steps += 1
    piles = [sorted(pile) for pile in sorted(piles, key=lambda p: (-costs.together(p), p))]
    return _shared_out(piles, steps, processes)


def _shared_out(piles: list[list[int]], steps: int, processes: int) -> list[list[list[int]]]:
    """Piles, the largest first, to micro-steps; back and forth over the processes."""
    dealt: list[list[list[int]]] = []
    for step in range(steps):
        own = piles[step * processes : (step + 1) * processes]
        own += [[] for _ in range(processes - len(own))]
        dealt.append(own[::-1] if step % 2 else own)
    return dealt


def _rows(costs: Costs, count: int) -> list[list[int]]:
    """`count` piles of nearly equal sums: the largest item first, each to the smallest pile."""
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
    low, high = 1, max(1, costs.together(order))
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
