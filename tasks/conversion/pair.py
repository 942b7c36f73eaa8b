"""The preference pair: what a layout makes of a row, and the checks that every pair passes.

A layout builds a `Pair` from the row's values as they are; `checked` brings it into the one
canonical form, or says why it cannot be used. Canonical means:

    standard         prompt text or None, chosen and rejected text
    conversational   prompt messages (at least one), chosen and rejected messages that end in an
                     assistant's turn; prompt + chosen is the whole conversation
"""

import unicodedata
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import orjson

from tasks.conversion.messages import Messages, check_messages
from tasks.conversion.prompts import separated_messages, separated_text
from tasks.conversion.unusable import Unusable, found

Text = str
Format = Literal["standard", "conversational"]
TIE = 0.5
"""The preference of a pair neither side of which is the better one."""


@dataclass(frozen=True)
class Pair:
    """One answer that is preferred over another, for one prompt.

    From a layout: `prompt` (absent = `IMPLICIT`), `chosen` and `rejected` are whatever the row
    holds. After `checked`: text or messages, see the module's head.
    """

    prompt: Any
    chosen: Any
    rejected: Any
    tools: str | None = None
    """JSON text of the tools that the template is given."""
    chat_template_kwargs: str | None = None
    """JSON text of further arguments to the template."""
    margin: float | None = None
    """How much better chosen is; at least 0."""
    weight: float = 1.0
    preference: float = 1.0
    """The probability that `chosen` is the better one; 0.5 is a tie. `checked` swaps the sides
    where it is below that."""
    comparison: str | None = None
    """Names the list of judged answers to one prompt that this pair is one of several of."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What was changed to bring it into form: counted per source in the report."""

    @property
    def format(self) -> Format:
        """Text or messages; `checked` sees to it that both sides agree."""
        return "standard" if isinstance(self.chosen, str) else "conversational"


class _Implicit:
    def __repr__(self) -> str:
        return "IMPLICIT"


IMPLICIT = _Implicit()
"""The prompt of a row that has no prompt column: both answers begin with it."""


def checked(pair: Pair) -> Pair:
    """The pair in canonical form.

    Raises:
        Unusable: with the reason; the reasons are listed in this stage's package docstring.
    """
    if pair.preference < TIE:
        pair = replace(
            pair, chosen=pair.rejected, rejected=pair.chosen, preference=1 - pair.preference
        )
    chosen, rejected = pair.chosen, pair.rejected
    _check_kinds(chosen, rejected)
    notes = list(pair.notes)
    if isinstance(chosen, str) and not isinstance(pair.prompt, list):
        prompt, chosen, rejected = _standard(pair.prompt, chosen, rejected, notes)
    else:
        prompt, chosen, rejected = _conversational(pair.prompt, chosen, rejected, notes)
    if pair.preference == TIE and orjson.dumps(rejected) < orjson.dumps(chosen):
        chosen, rejected = rejected, chosen  # a tie has no order of its own: one for all
    return replace(
        pair, prompt=prompt, chosen=chosen, rejected=rejected, notes=tuple(dict.fromkeys(notes))
    )


def _check_kinds(chosen: Any, rejected: Any) -> None:
    for name, value in (("chosen", chosen), ("rejected", rejected)):
        if value is None:
            raise Unusable("null", name, "found null, expected an answer; drop the row or fill it")
        if not isinstance(value, str | list):
            raise Unusable(
                "wrong_type", name, f"found {found(value)}, expected text or a list of messages"
            )
    if type(chosen) is not type(rejected):
        raise Unusable(
            "mixed_format",
            "rejected",
            f"found {found(chosen)} as chosen and {found(rejected)} as rejected, expected the same "
            "format on both sides",
        )


def _standard(
    prompt: Any, chosen: str, rejected: str, notes: list[str]
) -> tuple[str | None, str, str]:
    for name, answer in (("chosen", chosen), ("rejected", rejected)):
        if not answer.strip():
            raise empty_response(name, answer)
    if prompt is not IMPLICIT and not isinstance(prompt, str):
        raise _bad_prompt(prompt)
    _check_differ(chosen, rejected, normal)
    given = None if prompt is IMPLICIT else cast(str, prompt)
    return separated_text(given, chosen, rejected, notes)


def _conversational(
    prompt: Any, chosen: Any, rejected: Any, notes: list[str]
) -> tuple[Messages, Messages, Messages]:
    if prompt is not IMPLICIT and not isinstance(prompt, str | list):
        raise _bad_prompt(prompt)
    if isinstance(chosen, str):
        notes.append("answer text -> assistant message")
        chosen, rejected = _answer_turn(chosen), _answer_turn(rejected)
    chosen = check_messages(chosen, "chosen", notes)
    rejected = check_messages(rejected, "rejected", notes)
    for name, messages in (("chosen", chosen), ("rejected", rejected)):
        check_last_turn(name, messages)
    if prompt is IMPLICIT:
        prompt = None
    elif isinstance(prompt, list):
        prompt = check_messages(cast(list[Any], prompt), "prompt", notes)
    _check_differ(chosen, rejected, _normal_messages)
    return separated_messages(prompt, chosen, rejected, notes)


def _answer_turn(text: str) -> Messages:
    return [{"role": "assistant", "content": text}]


def check_last_turn(name: str, messages: Messages) -> None:
    """Raises Unusable unless the last turn is an assistant's and says something.

    Raises:
        Unusable: no_final_assistant, empty_response.
    """
    last = messages[-1]
    if last["role"] != "assistant":
        raise Unusable(
            "no_final_assistant",
            f"{name}[{len(messages) - 1}]",
            f"found a last turn of role {last['role']!r}, expected 'assistant': the turn whose "
            "quality is compared",
        )
    if not (last["content"] or "").strip() and "tool_calls" not in last:
        raise empty_response(name, last["content"])


def empty_response(name: str, value: Any) -> Unusable:
    """The reason of an answer without text."""
    return Unusable(
        "empty_response",
        name,
        f"found {found(value)} as the answer, expected some text; drop the row, or fill in what "
        "was answered",
    )


def _bad_prompt(prompt: Any) -> Unusable:
    if prompt is None:
        return Unusable(
            "null",
            "prompt",
            "found null, expected text or messages; leave the column out if the prompt stands at "
            "the beginning of both answers",
        )
    return Unusable(
        "wrong_type", "prompt", f"found {found(prompt)}, expected text or a list of messages"
    )


def _check_differ(chosen: Any, rejected: Any, normal: Any) -> None:
    if chosen == rejected:
        raise Unusable(
            "identical", "rejected", "found the same answer on both sides, expected two answers"
        )
    if normal(chosen) == normal(rejected):
        raise Unusable(
            "identical_normalised",
            "rejected",
            "found answers that differ only in surrounding whitespace or in Unicode composition "
            "(NFC), expected two answers",
        )


def _normal_messages(messages: Messages) -> Messages:
    return [m | {"content": normal(m["content"] or "")} for m in messages]


def normal(text: str) -> str:
    """Text as it is compared: NFC, without whitespace around it."""
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return text.strip()
