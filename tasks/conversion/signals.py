"""What a person should know of a pair's words, though nothing is wrong with it: counted only.

In:  what is stored of each pair of a batch, and the level of its characters.
Out: notes with the place of the pair, which the report counts per source; never the words.

Bytes are searched, all of a batch at once and only for one mark each: nearly no text holds one.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import orjson

from tasks.conversion.characters import QUIET, Levels
from tasks.conversion.messages import Messages, text_of
from tasks.conversion.tool_turns import unmatched_tool_turn

_BIDIRECTIONAL = re.compile(b"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
"""U+202A to U+202E and U+2066 to U+2069: text that is read in another order than it stands in."""
_BACKWARDS = "text that is displayed in another order (bidirectional controls)"
_SECRETS = (
    (b"AKIA", re.compile(rb"AKIA[0-9A-Z]{16}"), "an access key"),
    (b"ghp_", re.compile(rb"ghp_[0-9A-Za-z]{36}"), "an access token"),
    (b"sk-", re.compile(rb"\bsk-[0-9A-Za-z_-]{20,}"), "an access token"),
    (b"PRIVATE KEY-----", re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "a private key"),
    (b"eyJ", re.compile(rb"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"), "a signed web token"),
    (b"@", re.compile(rb"[\w.+-]{1,64}@[\w-]{1,64}\.[A-Za-z]{2,}"), "an e-mail address"),
)
"""A mark that is cheap to look for, what it is a part of, and what that is called."""
_TOOL_TURN = b'{"role":"tool"'
LETTERS = 200
"""Characters of an answer by which its script is told."""


Sides = tuple[bytes | None, bytes, bytes]
"""Prompt, chosen and rejected, as they are stored."""


def signals(
    texts: Sequence[bytes], levels: Levels, sides: Callable[[int], Sides]
) -> list[tuple[int, str]]:
    """The notes on a batch: the pair's place in it and the words, each at most once per pair.

    In: of every pair the text of its identity and its level; and what gives the sides of one.
    """
    notes: set[tuple[int, str]] = set()
    for place in np.flatnonzero(levels > QUIET).tolist():
        notes.update((place, note) for note in _display(texts[place], sides(place)))
    whole = b"\0".join(texts)
    ends = np.cumsum([len(text) + 1 for text in texts])
    for mark, pattern, name in _SECRETS:
        for place in _holding(whole, ends, mark):
            if pattern.search(texts[place]):
                notes.add((place, f"text that looks like {name}"))
    if _TOOL_TURN in whole:
        for place, text in enumerate(texts):
            if _TOOL_TURN in text and _has_unmatched_tool_turn(*sides(place)):
                notes.add((place, "tool turn without its call"))
    return sorted(notes)


def _holding(whole: bytes, ends: Levels, mark: bytes) -> list[int]:
    """The places of the texts that may hold the mark, which are few: they hold its end.

    Its last byte is looked for in columns, and then the one before it: three times as fast as a
    search for all of it.
    """
    text = np.frombuffer(whole, np.uint8)
    found = np.flatnonzero(text == mark[-1])
    if len(mark) > 1:
        found = found[text[found - 1] == mark[-2]]
    return np.unique(np.searchsorted(ends, found, "right")).tolist()


def _display(text: bytes, sides: Sides) -> Iterator[str]:
    if _BIDIRECTIONAL.search(text):
        yield _BACKWARDS
    script = script_of(_words(orjson.loads(sides[1]))[:LETTERS])
    if script not in ("LATIN", ""):
        yield f"answers in {script} script"


class _Scripts(dict[str, str]):
    """The script of every character that has been seen; "" of what is no letter."""

    def __missing__(self, character: str) -> str:
        name = unicodedata.name(character, "?").split()[0] if character.isalpha() else ""
        self[character] = name
        return name


_SCRIPTS = _Scripts()


def script_of(text: str) -> str:
    """The script of most letters, by their Unicode names; "" where there are none.

    >>> script_of("\u043f\u0440\u0438 hi")
    'CYRILLIC'
    """
    scripts = Counter(map(_SCRIPTS.__getitem__, text))
    del scripts[""]
    return scripts.most_common(1)[0][0] if scripts else ""


def _has_unmatched_tool_turn(*sides: bytes | None) -> bool:
    prompt, chosen, rejected = (orjson.loads(side or b"[]") for side in sides)
    if not isinstance(chosen, list):
        return False  # the mark stands in a text
    return any(unmatched_tool_turn(prompt + side) is not None for side in (chosen, rejected))


def _words(answer: str | Messages) -> str:
    return answer if isinstance(answer, str) else " ".join(map(text_of, answer))
