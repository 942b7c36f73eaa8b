"""Layout `webgpt`: a question, two answers that cite what they found, and how people compare them.

    {"question": {"dataset": "eli5", "id": "x", "full_text": "Why is the sky blue?"},
     "answer_0": "Light scatters [1].", "answer_1": "It is not.", "score_0": 0.5, "score_1": -0.5,
     "quotes_0": {...}, "quotes_1": {...}, "tokens_0": {...}, "tokens_1": {...}}

is one pair: prompt [user "Why is the sky blue?"], chosen [assistant "Light scatters [1]."],
rejected [assistant "It is not."]. The scores sum to 0, and 0 is a tie. Their sign alone is taken,
as the data set's authors do (arXiv 2112.09332, appendix K); with `soft: true` the score says how
sure the pair is, 0.75 here. Quotes are not part of the prompt.
"""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from tasks.conversion.layouts.columns import Row, is_object, required
from tasks.conversion.options import Options
from tasks.conversion.preference.answers import Item
from tasks.conversion.preference.conversational import as_conversation
from tasks.conversion.preference.fields import exact_number
from tasks.conversion.preference.pair import pair_of
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable, found

READ = ("question", "answer_0", "answer_1", "score_0", "score_1")


class WebgptOptions(Options):
    """What is made of the scores."""

    soft: bool = False
    """A score from 0 to 1 is a preference from 1/2 to 1."""


def fits(columns: set[str], row: Row) -> bool:  # noqa: ARG001
    """Its five columns."""
    return {"question", "answer_0", "answer_1", "score_0", "score_1"} <= columns


def read(row: Row, options: WebgptOptions) -> list[Item]:
    """The row's one pair, as messages, or its tie.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_score.
    """
    prompt = _question(required(row, "question"))
    answers = [required(row, name) for name in ("answer_0", "answer_1")]
    first, second = (_score(row, name) for name in ("score_0", "score_1"))
    if first + second != 0:
        raise Unusable(
            "bad_score", "score_1", f"found {first} and {second}, expected scores that sum to 0"
        )
    pair = pair_of(prompt, answers, first >= 0)
    if first == 0:
        tie = Tie("score_0", "found 0 for both answers: a tie prefers neither", [pair])
        return [as_conversation(tie)]
    if options.soft:
        pair = replace(pair, preference=float((1 + abs(first)) / 2))
    return [as_conversation(pair)]


def _question(value: Any) -> str:
    text = value.get("full_text") if is_object(value) else value
    if isinstance(text, str):
        return text
    raise Unusable(
        "null" if text is None else "wrong_type",
        "question",
        f"found {found(value)}, expected an object with full_text, or the text itself",
    )


def _score(row: Row, name: str) -> Decimal:
    score = exact_number(required(row, name), "bad_score", name)
    if score is None or abs(score) > 1:
        raise Unusable("bad_score", name, f"found {found(row[name])}, expected -1 to 1")
    return score
