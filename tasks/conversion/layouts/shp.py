"""Layout `shp`: a post, two comments on it, and which of them readers voted higher.

    {"history": "How do I ...?", "human_ref_A": "Like so.", "human_ref_B": "Don't.", "labels": 1,
     "score_A": 24, "score_B": 3, "score_ratio": 8.0}

is one pair: prompt [user "How do I ...?"], chosen [assistant "Like so."], rejected [assistant
"Don't."]; `labels` 1 means that A is preferred, 0 that B is. Votes are no margin unless asked for:
they grow with a post's readers.
"""

from dataclasses import replace
from decimal import Decimal
from math import log
from typing import Literal

from pydantic import Field

from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.options import Options
from tasks.conversion.preference.answers import Item
from tasks.conversion.preference.conversational import as_conversation
from tasks.conversion.preference.fields import exact_number
from tasks.conversion.preference.labels import good
from tasks.conversion.preference.pair import Pair
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable

READ = ("history", "human_ref_A", "human_ref_B", "labels", "score_A", "score_B", "score_ratio")


class ShpOptions(Options):
    """What is made of the votes."""

    margin: Literal["none", "difference", "log_ratio"] = "none"
    """Of the two scores: none, their difference, or the natural logarithm of their ratio."""
    min_score_ratio: float = Field(1.0, ge=1.0)
    """Pairs whose votes are closer are counted as ties; the data set's authors advise 2."""


def fits(columns: set[str], row: Row) -> bool:  # noqa: ARG001
    """Its four columns."""
    return {"history", "human_ref_A", "human_ref_B", "labels"} <= columns


def read(row: Row, options: ShpOptions) -> list[Item]:
    """The row's one pair, as messages, or its tie.

    Raises:
        Unusable: missing_column, null, bad_label, bad_score, score_contradicts_label.
    """
    first_is_better = good(required(row, "labels"), "labels")
    sides = ["A", "B"] if first_is_better else ["B", "A"]
    better, worse = (exact_number(row.get(f"score_{s}"), "bad_score", f"score_{s}") for s in sides)
    if better is not None and worse is not None and better < worse:
        raise Unusable(
            "score_contradicts_label",
            "labels",
            f"found label {int(first_is_better)} with score {better} for {sides[0]} and {worse} "
            f"for {sides[1]}, expected the preferred answer to score higher; labels 1 means A",
        )
    ratio = _ratio(row, better, worse)
    chosen, rejected = (required(row, f"human_ref_{side}") for side in sides)
    pair = Pair(required(row, "history"), chosen, rejected, chosen_first=first_is_better)
    if ratio is not None and ratio < options.min_score_ratio:
        message = f"found {ratio}, less than min_score_ratio: taken as a tie"
        return [as_conversation(Tie("score_ratio", message, [pair]))]
    margin = None
    if options.margin == "difference" and better is not None and worse is not None:
        margin = float(better - worse)
    elif options.margin == "log_ratio" and ratio is not None:
        margin = log(ratio)
    return [as_conversation(replace(pair, margin=margin))]


def _ratio(row: Row, better: Decimal | None, worse: Decimal | None) -> float | None:
    """Votes of the better comment over those of the other, at least 1: as stated, or computed."""
    stated = exact_number(row.get("score_ratio"), "bad_score", "score_ratio")
    if stated is not None and stated >= 1:
        return float(stated)
    if better is None or worse is None or worse <= 0:
        return None
    return float(better / worse)
