"""The preference pair: what a layout makes of a row, and the checks that every pair passes.

A layout builds a `Pair` from the row's values as they are; `checked` brings it into the one
canonical form, or says why it cannot be used. Canonical means:

    standard         prompt text or None, chosen and rejected text
    conversational   prompt messages (at least one), chosen and rejected messages that end in an
                     assistant's turn; prompt + chosen is the whole conversation

With images, a content may be a list of parts, of type text or image, and the images stand beside.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

import orjson

from tasks.conversion.conversation.messages import Messages, check_messages, image_parts
from tasks.conversion.preference.prompts import separated_messages, separated_text
from tasks.conversion.preference.sides import (
    alike_messages,
    alike_texts,
    bad_prompt,
    check_differ,
    check_kinds,
    check_last_turn,
    empty_response,
)
from tasks.conversion.unusable import Unusable

Format = Literal["standard", "conversational"]
FORMATS: tuple[Format, ...] = get_args(Format)
TIE = 0.5
"""The preference of a pair neither side of which is the better one."""
ANSWER_TEXT = "answer text -> assistant message"
BESIDE_TEXT = "tools beside text kept"


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
    """Id of the list of judged answers that several pairs come from; None for a single pair."""
    images: str | None = None
    """JSON text of the row's images (paths, URLs, objects), in the order of the image parts."""
    chosen_first: bool | None = None
    """Whether `chosen` is the answer that the row, and so its judge, had first; None where the row
    has no such order."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What was changed to bring it into form: counted per source in the report."""

    @property
    def format(self) -> Format:
        """Text or messages; after `checked` both sides agree."""
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
        pair = replace(swapped(pair), preference=1 - pair.preference)
    chosen, rejected = pair.chosen, pair.rejected
    check_kinds(chosen, rejected)
    notes = list(pair.notes)
    if isinstance(chosen, str) and not isinstance(pair.prompt, list):
        if pair.images is not None:
            raise _images_beside_text()
        prompt, chosen, rejected = _standard(pair.prompt, chosen, rejected, notes)
        notes += [BESIDE_TEXT] if pair.tools else []
    else:
        prompt, chosen, rejected = _conversational(pair.prompt, chosen, rejected, notes)
        _check_images(pair, prompt, chosen, rejected)
    canonical = Pair(
        prompt,
        chosen,
        rejected,
        pair.tools,
        pair.chat_template_kwargs,
        pair.margin,
        pair.weight,
        pair.preference,
        pair.comparison,
        pair.images,
        pair.chosen_first,
        tuple(dict.fromkeys(notes)) if notes else (),
    )
    return in_tie_order(canonical) if canonical.preference == TIE else canonical


def in_tie_order(tie: Pair) -> Pair:
    """The tie with its answers sorted by their JSON, since neither of them is the better one."""
    return swapped(tie) if orjson.dumps(tie.rejected) < orjson.dumps(tie.chosen) else tie


def swapped(pair: Pair) -> Pair:
    """The pair the other way round, with the same preference."""
    first = None if pair.chosen_first is None else not pair.chosen_first
    return replace(pair, chosen=pair.rejected, rejected=pair.chosen, chosen_first=first)


def pair_of(prompt: Any, answers: Sequence[Any], first_is_better: bool, **values: Any) -> Pair:
    """The pair of two answers, given in the order in which the row, and so its judge, had them."""
    chosen, rejected = answers if first_is_better else reversed(answers)
    return Pair(prompt, chosen, rejected, chosen_first=first_is_better, **values)


def _images_beside_text() -> Unusable:
    return Unusable(
        "image_part",
        "images",
        "found images beside texts, expected messages whose parts say where an image belongs; "
        "leave such rows out of the source, or write prompt and answers as messages",
    )


def _check_images(pair: Pair, *messages: Messages) -> None:
    if pair.images is not None:
        return
    if any(part.keys() == {"type"} for side in messages for part in image_parts(side)):
        raise Unusable(
            "image_part",
            "images",
            "found a part of type 'image' without an image and no images beside the messages, "
            "expected a column 'images', or the image's path or url in the part",
        )


def _standard(
    prompt: Any, chosen: str, rejected: str, notes: list[str]
) -> tuple[str | None, str, str]:
    for name, answer in (("chosen", chosen), ("rejected", rejected)):
        if not answer.strip():
            raise empty_response(name, answer)
    if prompt is not IMPLICIT and not isinstance(prompt, str):
        raise bad_prompt(prompt)
    check_differ(chosen, rejected, alike_texts)
    text = None if prompt is IMPLICIT else cast(str, prompt)
    separated = separated_text(text, chosen, rejected, notes)
    if separated[1:] != (chosen, rejected):
        check_differ(separated[1], separated[2], alike_texts)
    return separated


def _conversational(
    prompt: Any, chosen: Any, rejected: Any, notes: list[str]
) -> tuple[Messages, Messages, Messages]:
    if prompt is not IMPLICIT and not isinstance(prompt, str | list):
        raise bad_prompt(prompt)
    if isinstance(chosen, str):
        notes.append(ANSWER_TEXT)
        chosen, rejected = answer_turn(chosen), answer_turn(rejected)
    chosen = check_messages(chosen, "chosen", notes)
    rejected = check_messages(rejected, "rejected", notes)
    for name, messages in (("chosen", chosen), ("rejected", rejected)):
        check_last_turn(name, messages)
    if prompt is IMPLICIT:
        prompt = None
    elif isinstance(prompt, list):
        prompt = check_messages(cast(list[Any], prompt), "prompt", notes)
    check_differ(chosen, rejected, alike_messages)
    return separated_messages(prompt, chosen, rejected, notes)


def answer_turn(text: str) -> Messages:
    """An answer's text as a list of one assistant message."""
    return [{"role": "assistant", "content": text}]
