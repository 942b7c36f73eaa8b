"""What a person should know about the words of a usable pair; such pairs are only counted.

In:  what is stored of each pair of a batch, and the level of its characters.
Out: notes with the place of the pair, which the report counts per source; never the words.

The bytes of a whole batch are searched at once, for one rare mark of each kind: few texts hold one.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import orjson

from tasks.conversion.conversation.messages import Messages, text_of
from tasks.conversion.preference.characters import QUIET, Array
from tasks.conversion.preference.tool_turns import unmatched_tool_turn

_BIDIRECTIONAL = b"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]"
"""U+202A to U+202E and U+2066 to U+2069: text that is read in another order than it stands in."""
_BACKWARDS = "text that is displayed in another order (bidirectional controls)"
_SECRETS = (
    (b"AK", rb"AKIA[0-9A-Z]{16}", "an access key"),
    (b"p_", rb"ghp_[0-9A-Za-z]{36}", "an access token"),
    (b"k-", rb"\bsk-[0-9A-Za-z_-]{20,}", "an access token"),
    (b"Y-", rb"-----BEGIN [A-Z ]*PRIVATE KEY-----", "a private key"),
    (b"yJ", rb"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}", "a signed web token"),
    (b"@", rb"[\w.+-]{1,64}@[\w-]{1,64}\.[A-Za-z]{2,}", "an e-mail address"),
)
"""Of each kind of secret: its mark (bytes in every such secret, of which the last is rare in other
text), its expression, and its name. Expressions are compiled when they are first needed."""
_RARE = sorted({mark[-1] for mark, _, _ in _SECRETS})
_TOOL_TURN = b'{"role":"tool"'
WRITTEN_TURN = b"\\n\\nAssistant:"
"""A blank line and a name, as JSON has them."""
JSON_TURN = b'"[{\\"'
"""How messages begin that are stored as the text of their JSON: files of one source may differ."""
LETTERS = 200
"""Characters of an answer by which its script is told."""


Sides = tuple[bytes | None, bytes, bytes]
"""Prompt, chosen and rejected, as they are stored."""


def end_to_end(texts: Sequence[bytes], each: int = 1) -> tuple[bytes, Array]:
    """The texts joined by zero bytes, and the position behind each text and its zero byte.

    `each`: so many texts in a row count as one, and get one position.
    """
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return b"\0".join(texts), np.cumsum(sizes + 1)[each - 1 :: each]


def signals(
    whole: bytes, ends: Array, levels: Array, sides: Callable[[int], Sides]
) -> list[tuple[int, str]]:
    """The notes on a batch: the pair's place in it and the words, each at most once per pair.

    `whole`, `ends`: the texts of all pairs, `end_to_end`. `levels`: int8 `[n]`, see `characters`.
    `sides`: from a pair's place to its sides.
    """
    notes: set[tuple[int, str]] = set()
    for place in np.flatnonzero(levels > QUIET).tolist():
        notes.update((place, note) for note in _display(_text(whole, ends, place), sides(place)))
    for place, pattern, name in _marked(whole, ends):
        if re.search(pattern, _text(whole, ends, place)):
            notes.add((place, f"text that looks like {name}"))
    return sorted(notes)


def turn_signals(texts: Sequence[bytes], sides: Callable[[int], Sides]) -> list[tuple[int, str]]:
    """The notes on tool turns whose calls are missing, and on turns that are written in a text.

    `texts`: the stored text of every pair (`Identity.text`).
    """
    notes: list[tuple[int, str]] = []
    for place, text in enumerate(texts):
        if _TOOL_TURN in text and _has_unmatched_tool_turn(*sides(place)):
            notes.append((place, "tool turn without its call"))
        elif WRITTEN_TURN in text and sides(place)[1].startswith(b'"'):
            notes.append((place, "turns written in a text (Assistant:): it gets no chat template"))
        elif JSON_TURN in text and any(s and s.startswith(JSON_TURN) for s in sides(place)[:2]):
            notes.append((place, "messages written in a text as JSON: it gets no chat template"))
    return notes


def _text(whole: bytes, ends: Array, place: int) -> bytes:
    return whole[ends[place - 1] if place else 0 : ends[place] - 1]


def _marked(whole: bytes, ends: Array) -> Iterator[tuple[int, bytes, str]]:
    """The places of the pairs that hold a mark, with the mark's expression and name.

    One search finds the last bytes of all marks; only there the marks are told apart.
    """
    text = np.frombuffer(whole, np.uint8)
    rare = text == _RARE[0]
    for byte in _RARE[1:]:
        rare |= text == byte
    hits = np.flatnonzero(rare)
    last, before = text[hits], text[hits - 1]
    for mark, pattern, name in _SECRETS:
        is_mark = last == mark[-1]
        if len(mark) > 1:
            is_mark &= before == mark[-2]
        places = np.searchsorted(ends, hits[is_mark], "right")
        for place in dict.fromkeys(places.tolist()):
            yield place, pattern, name


def _display(text: bytes, sides: Sides) -> Iterator[str]:
    if re.search(_BIDIRECTIONAL, text):
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
        return False  # the mark stands in the tools or in the template's arguments
    return any(unmatched_tool_turn(prompt + side) is not None for side in (chosen, rejected))


def _words(answer: str | Messages) -> str:
    return answer if isinstance(answer, str) else " ".join(map(text_of, answer))
