"""What both answers of a pair must be: of one kind, with something said last, and different.

    check_kinds -> check_last_turn | empty_response -> check_differ

Texts are compared without whitespace around them and in one Unicode composition (NFC).
"""

import unicodedata
from collections.abc import Callable
from typing import Any, cast

from tasks.conversion.conversation.messages import Messages, image_parts, text_of
from tasks.conversion.unusable import Unusable, found, not_as_expected


def check_kinds(chosen: Any, rejected: Any) -> None:
    """Both texts, or both lists.

    Raises:
        Unusable: null, wrong_type, mixed_format.
    """
    check_kind("chosen", chosen)
    check_kind("rejected", rejected)
    if type(chosen) is not type(rejected):
        raise Unusable(
            "mixed_format",
            "rejected",
            f"found {found(chosen)} as chosen and {found(rejected)} as rejected, expected the same "
            "format on both sides",
        )


def check_kind(name: str, answer: Any) -> None:
    """A text, or a list.

    Raises:
        Unusable: null, wrong_type.
    """
    if not isinstance(answer, str | list):
        raise not_as_expected(answer, name, "text or a list of messages")


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
    content = last["content"]
    if isinstance(content, str) and content and not content[0].isspace():
        return
    if not text_of(last).strip() and not image_parts([last]) and "tool_calls" not in last:
        raise empty_response(name, content)


def empty_response(name: str, value: Any) -> Unusable:
    """The reason of an answer without text."""
    return Unusable(
        "empty_response",
        name,
        f"found {found(value)} as the answer, expected some text; drop the row, or fill in what "
        "was answered",
    )


def bad_prompt(prompt: Any) -> Unusable:
    """The reason of a prompt that is neither text nor messages."""
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


def check_differ(chosen: Any, rejected: Any, alike: Callable[[Any, Any], bool]) -> None:
    """Two answers, not one twice.

    Raises:
        Unusable: identical, identical_normalised.
    """
    if chosen == rejected:
        raise Unusable(
            "identical", "rejected", "found the same answer on both sides, expected two answers"
        )
    if alike(chosen, rejected):
        raise Unusable(
            "identical_normalised",
            "rejected",
            "found answers that differ only in surrounding whitespace or in Unicode composition "
            "(NFC), expected two answers",
        )


def alike_texts(a: str, b: str) -> bool:
    """Whether two texts are equal as they are compared."""
    return normal(a) == normal(b)


def alike_messages(a: Messages, b: Messages) -> bool:
    """Whether two answers of messages are equal as they are compared."""
    if len(a) != len(b):
        return False
    return all(
        one == other
        or one | {"content": normal_content(one["content"])}
        == other | {"content": normal_content(other["content"])}
        for one, other in zip(a, b, strict=True)
    )


def normal(text: str) -> str:
    """Text as it is compared: NFC, without whitespace around it."""
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return text.strip()


def normal_content(content: Any) -> Any:
    """A message's content as it is compared: null is no text, and of parts the texts count."""
    if isinstance(content, list):
        parts = cast(list[dict[str, Any]], content)
        return [p | {"text": normal(p["text"])} if p["type"] == "text" else p for p in parts]
    return normal(content or "")
