"""Special tokens that stand in a row's own text, told apart from those that the template writes.

    content "see <|im_end|>"   ->   rendered "<|im_start|>user\\nsee <|im_end|><|im_end|>\\n"
                                    literals              (21, 31): the row's, not the template's

To the model a special token in a text is a genuine turn marker. What is a row's own is found by
rendering it with stand-ins: single private-use characters that the template carries along. So a
token is found as well where only the joint of two fields, or of a field and the template's own
text, makes one.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

from tasks.conversion.conversation.message_names import REASONING
from tasks.templating.tokenizer.one_of import one_of

Policy = Literal["quarantine", "encode", "keep"]
"""What becomes of a row whose own text holds a special token: the row is refused, the token is
encoded as ordinary text, or it is kept as markup."""
Literals = tuple[int, ...]
"""Where a text is literal: start, end, start, end ... in characters, rising."""
FIRST_STAND_IN = 0x100000
FIRST_ALIAS = 0xF0000
"""Private-use characters by which the literal encoder names genuine special tokens."""
ALIASES = re.compile("[\U000f0000-\U000ffffd]")
MOST_ENDS = 6
FREE_TEXT = ("content", "text", "name", *REASONING)


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of a tokenizer, and what a text may hold of them."""

    tokens: tuple[str, ...]
    """Longest first: of two that begin at one place the longer is meant."""
    pattern: "re.Pattern[str]"
    heads: frozenset[str]
    """Beginnings of tokens, without the tokens themselves."""
    tails: frozenset[str]
    longest: int
    ends: tuple[str, ...] = ()
    """The first and last characters of tokens, where they are few; else nothing."""

    def innocent(self, text: str) -> bool:
        """Whether free text neither holds a token nor could complete one: the quick way to know.

        What completes a token has its first or its last character, or lies within one.
        """
        inner = text.strip()
        if self.within(inner):
            return False
        if self.ends and not any(end in text for end in self.ends):
            return True
        return self.pattern.search(text) is None and not any(self.partial(inner))

    def markup(self, text: str, literals: Literals = ()) -> list[tuple[int, int]]:
        """Where special tokens stand outside of the literal stretches: start and end of each."""
        return [match.span() for match in self.pattern.finditer(blanked(text, literals))]

    def forged(self, text: str, literals: Literals) -> str | None:
        """A special token that the literal stretches make or take part in, or None."""
        genuine = set(self.markup(text, literals))
        for start, end in self.markup(text):
            if (start, end) not in genuine:
                return text[start:end]
        return None

    def partial(self, text: str) -> tuple[int, int]:
        """How many characters at the beginning and at the end could be a part of a token."""
        head = next((n for n in self._lengths(text) if text[:n] in self.tails), 0)
        tail = next((n for n in self._lengths(text) if text[-n:] in self.heads), 0)
        return head, tail

    def within(self, text: str) -> bool:
        """Whether a token holds the whole text inside it."""
        may_be = 0 < len(text) < self.longest and text in self.joined
        return may_be and any(text in token for token in self.tokens)

    @cached_property
    def joined(self) -> str:
        """All tokens in one text: whatever lies within a token lies within it, too."""
        return "\n".join(self.tokens)

    def _lengths(self, text: str) -> range:
        return range(min(len(text), self.longest - 1), 0, -1)


def special_tokens(tokenizer: Any) -> SpecialTokens | None:
    """The special tokens of a tokenizer, or None where it has none."""
    named = {str(token) for token in tokenizer.all_special_tokens}
    named |= {str(t) for t in tokenizer.added_tokens_decoder.values() if t.special}
    tokens = tuple(sorted((t for t in named if t.strip()), key=lambda t: (-len(t), t)))
    if not tokens:
        return None
    ends = tuple(sorted({c for t in tokens for c in (t[0], t[-1])}))
    return SpecialTokens(
        tokens,
        re.compile(one_of(tokens)),
        frozenset(token[:n] for token in tokens for n in range(1, len(token))),
        frozenset(token[n:] for token in tokens for n in range(1, len(token))),
        len(tokens[0]),
        ends if len(ends) <= MOST_ENDS else (),
    )


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
        self._taken = {c for value in values for text, _ in _strings(value) for c in text}
        self._next = FIRST_STAND_IN

    def put(self, value: Any, free: bool = False) -> Any:
        """The value with stand-ins in its strings; roles and other keys' names stay."""
        return _mapped(value, self._text, free)

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
        while chr(self._next) in self._taken:
            self._next += 1
        char = chr(self._next)
        self._next += 1
        self.meaning[char] = text
        return char


def with_literals(
    render: Callable[[Any, Any], str],
    special: SpecialTokens | None,
    messages: Any,
    tools: Any,
    settings: Any,
) -> tuple[str, Literals, str | None]:
    """The text of a conversation, where it is literal, and a special token in the row's own words.

    `render`: from messages and tools to the text. Without such a token nothing is literal.
    """
    if special is None or not suspicious([messages, tools], special):
        return render(messages, tools), (), None
    stand_ins = StandIns(special, messages, tools, settings)
    rendered = render(stand_ins.put(messages), stand_ins.put(tools))
    text, literals = stand_ins.resolved(rendered)
    forged = special.forged(text, literals)
    return (render(messages, tools), (), None) if forged is None else (text, literals, forged)


def blanked(text: str, literals: Literals) -> str:
    """The text with every literal character replaced, so that no special token is found there."""
    for start, end in zip(literals[::2], literals[1::2], strict=True):
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text


def _strings(value: Any, free: bool = False) -> Iterator[tuple[str, bool]]:
    """Every string of a JSON value, and whether it is free text; roles are not among them."""
    if isinstance(value, str):
        yield value, free
    elif isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            yield key, False
            if key != "role":
                yield from _strings(item, key in FREE_TEXT)
    elif isinstance(value, list):
        for item in cast(list[Any], value):
            yield from _strings(item, free)


def _mapped(value: Any, change: Callable[[str, bool], str], free: bool) -> Any:
    if isinstance(value, str):
        return change(value, free)
    if isinstance(value, dict):
        return {
            change(key, False): item if key == "role" else _mapped(item, change, key in FREE_TEXT)
            for key, item in cast(dict[str, Any], value).items()
        }
    if isinstance(value, list):
        return [_mapped(item, change, free) for item in cast(list[Any], value)]
    return value
