"""Characters beyond ASCII, told apart by what may be done with them at the speed of bytes.

In:  UTF-8 bytes of texts, most of which hold no such character, or a few quotes and dashes.
Out: a level for each text. Few texts are above QUIET, and only these are looked at further.

    NONE      only ASCII
    QUIET     settled, and no letter: punctuation, signs, digits, emoji
    SETTLED   NFC, NFKC and casefolding leave the text as it is
    OTHER     anything else: the text has to be normalised
"""

import unicodedata
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

NONE, QUIET, SETTLED, OTHER = range(4)
_ASCII = bytes(range(128))
_EXTRAS = "\ufe0f\u200d"
"""What joins emoji: variation selector 16 and the zero width joiner."""
_LETTERS = (("\x80", "\u10ff"), ("\u1e00", "\u1fff"), ("\u3041", "\u9fff"), ("\uac00", "\ud7a3"))
"""Where letters stand by themselves: a Hangul jamo composes with the one before it."""


def beyond_ascii(text: bytes) -> str:
    """The characters of UTF-8 bytes that are not ASCII, in their order."""
    return text.translate(None, _ASCII).decode()


def level_of(characters: str) -> int:
    """The highest level of all characters."""
    return max(map(_LEVELS.__getitem__, set(characters)), default=NONE)


def levels_of(whole: bytes, ends: Array) -> Array:
    """The level of every text, int8 `[n]`, in one pass over all of them; `NONE` stands for `QUIET`.

    `whole`, `ends`: as `signals.end_to_end` gives them.
    """
    levels = np.zeros(len(ends), np.int8)
    data = np.frombuffer(whole, np.uint8)
    is_beyond = data >= 128
    beyond = data[is_beyond]
    characters = beyond.tobytes().decode()
    by_character = {character: _LEVELS[character] for character in set(characters)}
    points = begins = levels[:0]
    for level in (SETTLED, OTHER):
        codes = [ord(character) for character, its in by_character.items() if its == level]
        if not codes:
            continue
        if not len(points):
            points = np.frombuffer(characters.encode("utf-32-le"), "<u4")
            begins = np.flatnonzero(is_beyond)[beyond >= 0xC0]  # each character's first byte
        levels[np.searchsorted(ends, begins[np.isin(points, codes)], "right")] = level
    return levels


class _Levels(dict[str, int]):
    """The level of every character that has been seen."""

    def __missing__(self, character: str) -> int:
        self[character] = level = _level(character)
        return level


def _level(character: str) -> int:
    settled = (
        unicodedata.normalize("NFKC", character) == character == character.casefold()
        and unicodedata.combining(character) == 0
        and not character.isspace()
    )
    if not settled:
        return OTHER
    if character in _EXTRAS or unicodedata.category(character)[0] in "PSN":
        return SETTLED if character.isalpha() else QUIET
    alone = character.isalpha() and any(a <= character <= z for a, z in _LETTERS)
    return SETTLED if alone else OTHER


_LEVELS = _Levels()
