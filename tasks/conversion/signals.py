"""What a person should know of a pair's words, though nothing is wrong with it: counted only.

In:  the identities of a batch of pairs: what is stored of each, and the level of its characters.
Out: notes with the place of the pair, which the report counts per source; never the words.

Bytes are searched, all of a batch at once and only for one mark each: nearly no text holds one.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import orjson

from tasks.conversion.characters import QUIET
from tasks.conversion.identity import Identity
from tasks.conversion.messages import Messages, text_of

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


def signals(pairs: Sequence[Identity]) -> list[tuple[int, str]]:
    """The notes on a batch: the pair's place in it and the words, each at most once per pair."""
    notes: set[tuple[int, str]] = set()
    for place, pair in enumerate(pairs):
        if pair.level > QUIET:
            notes.update((place, note) for note in _display(pair))
    whole = b"\0".join([pair.text for pair in pairs])
    ends = [*accumulate(len(pair.text) + 1 for pair in pairs)]
    for mark, pattern, name in _SECRETS:
        note = f"text that looks like {name}"
        notes.update((i, note) for i in _holding(whole, ends, mark, partial(_matches, pattern)))
    for place in _holding(whole, ends, _TOOL_TURN, lambda _: True):
        if _has_unmatched_tool_turn(pairs[place]):
            notes.add((place, "tool turn without its call"))
    return sorted(notes)


def _matches(pattern: re.Pattern[bytes], text: bytes) -> bool:
    return pattern.search(text) is not None


def _holding(
    whole: bytes, ends: Sequence[int], mark: bytes, test: Callable[[bytes], bool]
) -> Iterator[int]:
    """The places of the texts that hold the mark and pass the test."""
    found = whole.find(mark)
    while found >= 0:
        place = bisect_right(ends, found)
        if test(whole[ends[place - 1] if place else 0 : ends[place] - 1]):
            yield place
        found = whole.find(mark, ends[place])


def _display(pair: Identity) -> Iterator[str]:
    if _BIDIRECTIONAL.search(pair.text):
        yield _BACKWARDS
    script = script_of(_words(orjson.loads(pair.chosen))[:LETTERS])
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


def _has_unmatched_tool_turn(pair: Identity) -> bool:
    prompt, chosen, rejected = (
        orjson.loads(side or b"[]") for side in (pair.prompt, pair.chosen, pair.rejected)
    )
    if not isinstance(chosen, list):
        return False  # the mark stands in a text
    return any(unmatched_tool_turn(prompt + side) is not None for side in (chosen, rejected))


def unmatched_tool_turn(messages: Messages) -> int | None:
    """Position of the first tool turn that answers no call made before it, or None.

    By id where the turn states one and the calls have ids; else a call before it is enough.
    """
    ids: set[Any] = set()
    called = False
    for i, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            called = True
            ids.add(call.get("id"))
        if message["role"] == "tool":
            wanted = message.get("tool_call_id")
            named = ids - {None}
            if not called or (wanted is not None and named and wanted not in named):
                return i
    return None


def _words(answer: str | Messages) -> str:
    return answer if isinstance(answer, str) else " ".join(map(text_of, answer))
