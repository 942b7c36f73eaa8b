"""What an answer was judged to be worth, as a row states it: a score, or a rank.

score "4.5"    ->  4.5, the higher the better
ranks 1 and 2  ->  scores -1 and -2; by how much one is better is not said: no margin
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from tasks.conversion.preference.fields import exact_number
from tasks.conversion.preference.pair import Pair
from tasks.conversion.unusable import Unusable

Score = Decimal | Unusable | None
"""None: there is none. Unusable: it cannot be read, which is this answer's fault, not its row's."""


def score_of(value: Any, field: str) -> Score:
    """The score that a row states."""
    try:
        return exact_number(value, "bad_score", field)
    except Unusable as problem:
        return problem


def score_of_rank(rank: Any, field: str) -> Score:
    """The score that stands for a rank, of which the lower is better."""
    score = score_of(rank, field)
    return -score if isinstance(score, Decimal) else score


def without_margins(items: Sequence[Pair | Unusable]) -> list[Pair | Unusable]:
    """The items of a ranking, whose numbers tell an order and no distance."""
    return [replace(item, margin=None) if isinstance(item, Pair) else item for item in items]
