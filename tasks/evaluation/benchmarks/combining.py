"""Means of items with their intervals, and weighted means of these: subsets, sections, overall.

A subset's interval is that of `intervals`: Wilson's for shares, or by the prompt where prompts
repeat. Of a weighted mean of independent parts it comes from the parts' own limits (MOVER: Zou &
Donner 2008, doi 10.1002/sim.3095, equation 5): the distances to the lower limits, weighted, add up
in squares, and so do those to the upper ones. Unlike a normal interval it does not collapse where
a part is all right or all wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from tasks.evaluation.measures.intervals import Interval, Resampling, intervals_of
from tasks.evaluation.tables.scores import numbered


@dataclass(frozen=True)
class Figure:
    """A score, its 95 % interval, and of how many items it is."""

    score: float
    interval: Interval | None
    n: int

    def to_json(self) -> dict[str, Any]:
        """As it stands in `benchmarks.json`."""
        return {"score": self.score, "score_interval": self.interval, "n": self.n}


def mean(values: Sequence[float], groups: Sequence[str], how: Resampling) -> Figure:
    """The mean of a share of each item (at least one)."""
    array = np.asarray(values, np.float64)
    interval = intervals_of({"x": array}, {}, numbered(groups), how)["x"]
    return Figure(float(array.sum() / len(array)), interval, len(array))


def means(
    values: Sequence[float],
    groups: Sequence[str],
    places: Mapping[str, Sequence[int]],
    how: Resampling,
) -> dict[str, Figure]:
    """`mean` of the shares at the places of each name."""
    return {
        name: mean([values[i] for i in rows], [groups[i] for i in rows], how)
        for name, rows in places.items()
    }


def weighted(parts: Sequence[tuple[float, Figure]]) -> Figure:
    """The weighted mean of independent figures; its interval is None where a part has none."""
    total = sum(weight for weight, _ in parts)
    score = sum(weight * figure.score for weight, figure in parts) / total
    n = sum(figure.n for _, figure in parts)
    below = above = 0.0
    for weight, figure in parts:
        if figure.interval is None:
            return Figure(score, None, n)
        below += (weight / total * (figure.score - figure.interval[0])) ** 2
        above += (weight / total * (figure.interval[1] - figure.score)) ** 2
    return Figure(score, (score - sqrt(below), score + sqrt(above)), n)


def by_subset(subsets: Sequence[str]) -> dict[str, list[int]]:
    """`{subset: positions of its items}`, in the order of the names."""
    found: dict[str, list[int]] = {}
    for place, subset in enumerate(subsets):
        found.setdefault(subset, []).append(place)
    return dict(sorted(found.items()))


def absent(expected: Mapping[str, Any] | Sequence[str], found: Mapping[str, Any]) -> list[str]:
    """The expected names that are not among those found, in their order."""
    return [name for name in expected if name not in found]
