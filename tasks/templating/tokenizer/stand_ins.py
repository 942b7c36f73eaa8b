"""Stand-ins for what a row's own text holds of special tokens, so that a rendering tells it apart.

    content "see <|im_end|>"   ->   rendered "<|im_start|>user\\nsee X<|im_end|>\\n", X the row's

A stand-in is a single private-use character that the template carries along. So a token is found as
well where only the joint of two fields, or of a field and the template's own text, makes one.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from tasks.conversion.conversation.message_names import ROLES, TEXT_KEYS
from tasks.templating.tokenizer.special_tokens import Literals, SpecialTokens

FIRST_STAND_IN = 0x100000
FREE_TEXT = ("content", "text", *TEXT_KEYS)
DOCUMENTS = "documents"
"""The one setting of a template that is somebody's words: what an answer is to be based on."""


def suspicious(value: Any, special: SpecialTokens) -> bool:
    """Whether the strings of messages or tools hold a special token, or could complete one."""
    return any(
        not special.innocent(text) if free else special.pattern.search(text)
        for text, free in _strings(value)
    )


def held(value: Any, special: SpecialTokens) -> str | None:
    """The first special token that stands whole in one of the strings, or None."""
    for text, _ in _strings(value):
        if match := special.pattern.search(text):
            return match.group()
    return None


class StandIns:
    """Values with stand-ins for whatever could be read as markup, and the way back."""

    def __init__(self, special: SpecialTokens, *values: Any) -> None:
        self.special = special
        self.meaning: dict[str, str] = {}
        self._names: dict[str, str] = {}
        """The stand-in of each text: there are fewer characters for them than a text may hold."""
        self._taken = {c for value in values for text, _ in _strings(value) for c in text}
        self._next = FIRST_STAND_IN

    def put(self, value: Any) -> Any:
        """The value with stand-ins in all strings but the roles of messages."""
        return _mapped(value, self._text)

    def resolved(self, rendered: str) -> tuple[str, Literals]:
        """The rendering without stand-ins, and where they stood."""
        parts: list[str] = []
        literals: list[int] = []
        length = 0
        for char in re.split("([\U00100000-\U0010fffd])", rendered):
            text = self.meaning.get(char, char)
            if char in self.meaning:
                literals += [length, length + len(text)]
            parts.append(text)
            length += len(text)
        return "".join(parts), tuple(literals)

    def _text(self, text: str, free: bool) -> str:
        text = self.special.pattern.sub(lambda match: self._stand_in(match.group()), text)
        if not free:
            return text
        inner = text.strip()
        if self.special.within(inner):
            return text.replace(inner, self._stand_in(inner), 1)
        before = text[: len(text) - len(text.lstrip())]
        after = text[len(text.rstrip()) :]
        head, tail = self.special.partial(inner)
        if head + tail > len(inner):
            tail = len(inner) - head
        middle = inner[head : len(inner) - tail]
        ends = (inner[:head], inner[len(inner) - tail :])
        first, last = (self._stand_in(end) if end else "" for end in ends)
        return before + first + middle + last + after

    def _stand_in(self, text: str) -> str:
        if text in self._names:
            return self._names[text]
        while chr(self._next) in self._taken:
            self._next += 1
        char = chr(self._next)
        self._next += 1
        self.meaning[char] = text
        self._names[text] = char
        return char


def with_literals(
    render: Callable[[Any, Any, dict[str, Any]], str],
    special: SpecialTokens | None,
    messages: Any,
    tools: Any,
    settings: dict[str, Any],
) -> tuple[str, Literals, str | None]:
    """The text of a conversation, where it is literal, and a special token in the row's own words.

    `render`: from messages, tools and settings to the text. Without such a token nothing is
    literal.
    """
    words = [messages, tools, settings.get(DOCUMENTS)]
    if special is None or not suspicious(words, special):
        return render(messages, tools, settings), (), None
    stand_ins = StandIns(special, messages, tools, settings)
    told = {n: stand_ins.put(value) if n == DOCUMENTS else value for n, value in settings.items()}
    rendered = render(stand_ins.put(messages), stand_ins.put(tools), told)
    text, literals = stand_ins.resolved(rendered)
    forged = special.forged(text, literals)
    if forged is None:
        return render(messages, tools, settings), (), None
    return text, literals, forged


def _is_role(key: str, item: Any) -> bool:
    """Whether it is the role of a message: templates compare those. An argument of a call may be
    named `role` as well, and hold anything."""
    return key == "role" and isinstance(item, str) and item in ROLES


def _strings(value: Any, free: bool = False) -> Iterator[tuple[str, bool]]:
    """Every string of a JSON value, and whether it is free text; roles are not among them."""
    if isinstance(value, str):
        yield value, free
    elif isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            yield key, False
            if not _is_role(key, item):
                yield from _strings(item, key in FREE_TEXT)
    elif isinstance(value, list):
        for item in cast(list[Any], value):
            yield from _strings(item, free)


def _mapped(value: Any, change: Callable[[str, bool], str], free: bool = False) -> Any:
    if isinstance(value, str):
        return change(value, free)
    if isinstance(value, dict):
        return {
            change(key, False): item
            if _is_role(key, item)
            else _mapped(item, change, key in FREE_TEXT)
            for key, item in cast(dict[str, Any], value).items()
        }
    if isinstance(value, list):
        return [_mapped(item, change, free) for item in cast(list[Any], value)]
    return value
