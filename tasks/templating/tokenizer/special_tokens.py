"""Special tokens that stand in a row's own text, told apart from those that the template writes.

    content "see <|im_end|>"   ->   rendered "<|im_start|>user\\nsee <|im_end|><|im_end|>\\n"
                                    literals              (21, 31): the row's, not the template's

To the model a special token in a text is a genuine turn marker. What is a row's own is found by
rendering it with stand-ins (`stand_ins`).
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tasks.templating.tokenizer.one_of import one_of

Policy = Literal["quarantine", "encode", "keep"]
"""What becomes of a row whose own text holds a special token: the row is refused, the token is
encoded as ordinary text, or it is kept as markup."""
Literals = tuple[int, ...]
"""Where a text is literal: start, end, start, end ... in characters, rising."""
FIRST_ALIAS = 0xF0000
"""Private-use characters by which the literal encoder names genuine special tokens."""
ALIASES = re.compile("[\U000f0000-\U000ffffd]")
MOST_ENDS = 6


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
    ends: tuple[str, ...]
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


def blanked(text: str, literals: Literals) -> str:
    """The text with every literal character replaced, so that no special token is found there."""
    parts: list[str] = []
    done = 0
    for start, end in zip(literals[::2], literals[1::2], strict=True):
        parts += text[done:start], "\0" * (end - start)
        done = end
    return "".join([*parts, text[done:]])
