"""Which of several answers to one prompt are set against each other.

In:  the answers' scores, and a name for each that depends on nothing but its content.
Out: (better, worse) positions, the tied ones, and how many pairs were ties or over the cap.

Four answers with the scores 3, 1, 2, 2 give, by position,

    all         (0,1) (0,2) (0,3) (2,1) (3,1), and one tie: 2 and 3
    best_worst  (0,1)
    adjacent    (0,2) (3,1), and one tie

Nothing depends on the order of the answers: where it matters, content decides.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, pairwise
from math import comb, gcd

from tasks.conversion.options import MAX_PAIRS, Rule

GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class PairedUp:
    """`len(pairs) + ties + capped` is how many pairs the rule asks for."""

    pairs: list[tuple[int, int]]
    """(better, worse) positions."""
    ties: int
    capped: int
    tied: list[tuple[int, int]]
    """Positions of ties, as many as the cap leaves room for beside `pairs`."""


def pair_up(
    scores: Sequence[Decimal], names: Sequence[bytes], rule: Rule, max_pairs: int = MAX_PAIRS
) -> PairedUp:
    """The pairs of one prompt's answers; none where there are fewer than two.

    Pairs over the cap are not built: a thousand good answers and a thousand bad ones cost no more
    than their sorting.
    """
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], names[i]))
    if len(order) < 2:
        return PairedUp([], 0, 0, [])
    if rule == "all":
        return _every(order, scores, max_pairs)
    couples = [(order[0], order[-1])] if rule == "best_worst" else list(pairwise(order))
    strict = [(i, j) for i, j in couples if scores[i] > scores[j]]
    kept = [strict[k] for k in _spread(len(strict), max_pairs)]
    equal = [(i, j) for i, j in couples if scores[i] == scores[j]]
    tied = [equal[k] for k in _spread(len(equal), max_pairs - len(kept))]
    return PairedUp(kept, len(equal), len(strict) - len(kept), tied)


def _every(order: Sequence[int], scores: Sequence[Decimal], max_pairs: int) -> PairedUp:
    """The rule `all`. Pair number k of the strict ones, best answer first, is not listed."""
    n = len(order)
    lower = [0] * n  # where the answers of a lower score begin
    for position in range(n - 1, -1, -1):
        last = position == n - 1 or scores[order[position]] > scores[order[position + 1]]
        lower[position] = position + 1 if last else lower[position + 1]
    ends = list(accumulate(n - start for start in lower))  # pairs with a better one up to here
    strict = ends[-1]
    pairs: list[tuple[int, int]] = []
    for k in _spread(strict, max_pairs):
        better = bisect_right(ends, k)
        before = ends[better - 1] if better else 0
        pairs.append((order[better], order[lower[better] + k - before]))
    tied = _tied(order, lower, max_pairs - len(pairs))
    return PairedUp(pairs, comb(n, 2) - strict, strict - len(pairs), tied)


def _tied(order: Sequence[int], lower: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Pairs of equal score, spread over all of them; number k is computed as in `_every`."""
    ends = list(accumulate(end - position - 1 for position, end in enumerate(lower)))
    tied: list[tuple[int, int]] = []
    for k in _spread(ends[-1], most):
        first = bisect_right(ends, k)
        before = ends[first - 1] if first else 0
        tied.append((order[first], order[first + 1 + k - before]))
    return tied


def _spread(count: int, most: int) -> Iterable[int]:
    """`most` different numbers below `count`, spread evenly; all of them where they are fewer.

    Steps of the golden ratio, made coprime to `count`: no number comes twice, and neither the
    better nor the worse side of the pairs falls into a short cycle.
    """
    if count <= most:
        return range(count)
    step = int(count * GOLDEN)
    while gcd(step, count) > 1:
        step -= 1
    return sorted(k * step % count for k in range(most))
