"""Answers that several people judged: each counts once, with one score from all its ratings.

    "Hello." 2   "Hello." 5   "Hello." 5   "No." 1    ->  "Hello." 4 (their mean)   "No." 1
    "Hello." good   "Hello." good   "Hello." bad      ->  "Hello." good (the majority)

Taken one by one, the same answer would stand on both sides of pairs, and one rating would be set
against another. Whatever the order of the rows, the outcome is the same.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from tasks.conversion.unusable import Unusable

AVERAGED = "several ratings of one answer -> their mean, or the majority of labels"


class Judged(NamedTuple):
    """One answer."""

    place: int
    """Position of its first rating."""
    score: Decimal | bool | None
    """None where as many call it good as bad."""
    ratings: int


def judged(names: Sequence[bytes], scores: Sequence[Decimal | bool]) -> Iterator[Judged]:
    """Each answer once, in the order in which they come first; `names` tells which are the same."""
    ratings: dict[bytes, list[int]] = {}
    for place, name in enumerate(names):
        ratings.setdefault(name, []).append(place)
    for places in ratings.values():
        yield Judged(places[0], _together([scores[place] for place in places]), len(places))


def undecided(ratings: int) -> Unusable:
    """The reason of an answer that as many labels call good as bad."""
    return Unusable(
        "tie", "label", f"found {ratings} labels of this answer, half of them good: no choice"
    )


def _together(scores: Sequence[Decimal | bool]) -> Decimal | bool | None:
    if len(scores) == 1:
        return scores[0]
    if all(isinstance(score, bool) for score in scores):
        good = sum(scores)
        return None if 2 * good == len(scores) else 2 * good > len(scores)
    return sum(sorted(map(Decimal, scores)), Decimal(0)) / len(scores)
