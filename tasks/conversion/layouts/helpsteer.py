r"""Layout `helpsteer`: answers rated by attributes, one per row; or two answers and a strength.

    {"prompt": "Hi", "response": "Hello.", "helpfulness": 4, "correctness": 4, ...}
    {"prompt": "Hi", "response": "No.", "helpfulness": 1, "correctness": 2, ...}

are one pair, joined by their prompt: prompt [user "Hi"], chosen [assistant "Hello."], rejected
[assistant "No."], margin 3, the difference in helpfulness. The other form is a pair in one row:

    {"prompt": "Hi", "response_1": "Hello.", "response_2": "No.", "preference_strength": -2}
    {"context": [{"role": "user", ...}], "response1": "Hello.", "response2": "No.",
     "overall_preference": -2}

is the same pair with margin 2: below 0 the first answer is better, above 0 the second, at most 3;
0 is a tie. With `soft: true` the strength is a preference instead, 1/2 + 2/6 = 0.833 here, and no
margin. A prompt may hold earlier turns, each after a line `<extra_id_1>User` or
`<extra_id_1>Assistant`.
"""

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pydantic import Field

from tasks.conversion.conversation.turns import as_messages, listed
from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.options import RankingOptions
from tasks.conversion.preference.answers import Answer, Item, check_completion
from tasks.conversion.preference.conversational import as_conversation
from tasks.conversion.preference.fields import exact_number
from tasks.conversion.preference.pair import Pair, pair_of
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable, found

STRENGTHS = ("preference_strength", "overall_preference")
READ = (
    *("prompt", "context", "response", *STRENGTHS),
    *("response_1", "response_2", "response1", "response2"),
)
STRONGEST = 3
_TURN = re.compile(r"\n?<extra_id_1>(User|Assistant)\n")


class HelpsteerOptions(RankingOptions):
    """How the attributes of an answer become one score."""

    attributes: dict[str, float] = Field(default={"helpfulness": 1.0}, min_length=1)
    """Attribute -> weight; the score is the weighted sum."""
    soft: bool = False
    """A strength of 1, 2 or 3 is a preference of 2/3, 5/6 or 1 instead of a margin."""

    def named(self) -> list[str]:
        """The attributes."""
        return [*self.attributes]


def fits(columns: set[str], row: Row) -> bool:  # noqa: ARG001
    """Attributes beside one response, or a strength beside two."""
    if {"prompt", "response", "helpfulness"} <= columns:
        return True
    return any(
        {strength, *names} <= columns
        for strength in STRENGTHS
        for names in (("response_1", "response_2"), ("response1", "response2"))
    )


def read(row: Row, options: HelpsteerOptions) -> list[Item]:
    """The row's answer with its score, or its pair with its margin, or its tie; as messages.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_score, unrated, empty_response.
    """
    strength = next((name for name in STRENGTHS if name in row), None)
    prompt = _prompt(row)
    if strength is not None:
        return [as_conversation(_preference(row, prompt, strength, options.soft))]
    response = required(row, "response")
    check_completion(response, "response")
    return [as_conversation(Answer(prompt, response, _score(row, options)))]


def _prompt(row: Row) -> Any:
    """Messages, or text that has no marks of turns in it."""
    if "prompt" not in row and "context" in row:
        return as_messages(listed(row["context"], "context", "a list of messages"))
    prompt = required(row, "prompt")
    if not isinstance(prompt, str):
        return as_messages(prompt)
    first, *marked = _TURN.split(prompt)
    if not marked:
        return prompt
    turns = [{"role": "user", "content": first}] if first.strip() else []
    for speaker, content in zip(marked[::2], marked[1::2], strict=True):
        turns.append({"role": speaker.lower(), "content": content})
    return turns[:-1] if turns[-1] == {"role": "assistant", "content": ""} else turns


def _score(row: Row, options: HelpsteerOptions) -> Decimal:
    total = Decimal(0)
    for name, weight in options.attributes.items():
        rating = exact_number(required(row, name), "bad_score", name)
        if rating is None:
            raise Unusable("unrated", name, "found no rating, expected a number: left out")
        total += rating * Decimal(repr(weight))
    return total


def _preference(row: Row, prompt: Any, field: str, soft: bool) -> Pair | Tie:
    names = [
        name if name in row else name.replace("_", "") for name in ("response_1", "response_2")
    ]
    answers = [required(row, name) for name in names]
    strength = exact_number(row[field], "bad_score", field)
    if strength is None or abs(strength) > STRONGEST:
        raise Unusable(
            "bad_score", field, f"found {found(row[field])}, expected a number from -3 to 3"
        )
    pair = pair_of(prompt, answers, strength <= 0)
    if strength == 0:
        return Tie(field, "found 0: a tie prefers neither answer", [pair])
    if soft:
        return replace(pair, preference=float((1 + abs(strength) / STRONGEST) / 2))
    return replace(pair, margin=float(abs(strength)))
