"""Layout `ultrafeedback`: an instruction, and several completions rated by aspect.

    {"instruction": "Hi", "completions": [
        {"response": "Hello.", "overall_score": 8.0,
         "annotations": {"helpfulness": {"Rating": "5"}, "honesty": {"Rating": "N/A"}}},
        {"response": "No.", "overall_score": 2.0,
         "annotations": {"helpfulness": {"Rating": "2"}, "honesty": {"Rating": "3"}}}]}

is one pair: prompt [user "Hi"], chosen [assistant "Hello."], rejected [assistant "No."], margin
2.5: the mean of the ratings given, 5, less that of 2 and 3. A rating is a text and may be "N/A"; a
completion without any is counted as `unrated`. Four completions make six pairs, less the ties.
"""

from decimal import Decimal
from typing import Any, Literal

from tasks.conversion.conversation.turns import listed
from tasks.conversion.layouts.columns import Row, is_object, required
from tasks.conversion.options import RankingOptions
from tasks.conversion.preference.answers import Item, ranked
from tasks.conversion.preference.conversational import as_conversation
from tasks.conversion.preference.fields import exact_number
from tasks.conversion.unusable import Unusable, not_as_expected

READ = ("instruction", "completions")
ASPECTS = ("instruction_following", "honesty", "truthfulness", "helpfulness")
NOT_RATED = ("n/a", "na", "none", "")


class UltrafeedbackOptions(RankingOptions):
    """Which of the scores of a completion compares it."""

    score: Literal[
        "mean_rating",
        "overall_score",
        "fine-grained_score",
        "instruction_following",
        "honesty",
        "truthfulness",
        "helpfulness",
    ] = "mean_rating"
    """`mean_rating`: the mean of the aspects that are rated; or one aspect; or the critique's
    overall score, which in the published files is 10 for some answers that the critique rates 1.
    That is why the binarized data in use took up the mean (Argilla's curation of this data set)."""


def fits(columns: set[str], row: Row) -> bool:
    """An instruction, and completions that are objects with a response."""
    completions = row.get("completions")
    first = next(iter(completions), None) if isinstance(completions, list) else None
    return "instruction" in columns and is_object(first, "response")


def read(row: Row, options: UltrafeedbackOptions) -> list[Item]:
    """The row's pairs, as messages; the completions that cannot be compared, one by one.

    Raises:
        Unusable: missing_column, null, wrong_type, unpaired_alone.
    """
    instruction = required(row, "instruction")
    if not isinstance(instruction, str):
        raise not_as_expected(instruction, "instruction", "text")
    answers: list[tuple[str, Any, Decimal | Unusable | None]] = []
    for i, entry in enumerate(listed(required(row, "completions"), "completions")):
        field = f"completions[{i}]"
        if not is_object(entry):
            answers.append((field, entry, None))
            continue
        score = _score(entry, field, options)
        answers.append((f"{field}.response", entry.get("response"), score))
    return [as_conversation(item) for item in ranked(answers, instruction, options)]


def _score(
    completion: dict[str, Any], field: str, options: UltrafeedbackOptions
) -> Decimal | Unusable | None:
    try:
        if options.score in ("overall_score", "fine-grained_score"):
            return _rating(completion.get(options.score), f"{field}.{options.score}")
        aspects = ASPECTS if options.score == "mean_rating" else (options.score,)
        ratings = [_aspect(completion.get("annotations"), name, field) for name in aspects]
    except Unusable as problem:
        return problem
    rated = [rating for rating in ratings if rating is not None]
    return sum(rated, Decimal(0)) / len(rated) if rated else None


def _aspect(annotations: Any, name: str, field: str) -> Decimal | None:
    """One aspect's rating; None where it is missing or "N/A"."""
    entry = annotations.get(name) if is_object(annotations) else None
    if not is_object(entry):
        return None
    return _rating(entry.get("Rating"), f"{field}.annotations.{name}.Rating")


def _rating(value: Any, field: str) -> Decimal | None:
    if isinstance(value, str) and value.strip().lower() in NOT_RATED:
        return None
    return exact_number(value, "bad_score", field)
