"""The conversations of some rows, parsed at once, and which of them are plain.

In:  the rows' JSON texts as one: of each row its prompt, chosen and rejected.
Out: all their turns one after the other, as roles and contents.

    [[{"role": "user", "content": "Hi"}], [{..., "Hello."}], [{..., "Go."}],     row 0
     [{"role": "user", "content": "And?"}], ...                                  row 1
        ->  roles     user, assistant, assistant, user ...
            contents  Hi, Hello., Go., And? ...
            bounds    0, 1, 2, 3, 4 ...             three stretches of turns for every row

A turn is plain if it has a role, a content that is text and not empty, and nothing else. Checking
all turns together costs a fraction of checking each: only where that fails, rows are checked one by
one.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any

import orjson

from tasks.templating.replay.piece import Piece
from tasks.templating.tokenizer.special_tokens import SpecialTokens

ROLE, CONTENT = itemgetter("role"), itemgetter("content")
Key = tuple[str | None, ...]
"""Tools, settings, and the roles of all turns."""
Side = tuple[Key, list[str]]
"""One side of a plain row: its structure and its contents."""


@dataclass(frozen=True)
class Conversations:
    """The turns of some rows, one after the other."""

    roles: list[str]
    contents: list[str]
    encoded: list[bytes]
    """The contents as UTF-8."""
    bounds: list[int]
    """Row `n` has its prompt's turns from `bounds[3 * n]` on, those of its chosen side from
    `bounds[3 * n + 1]`, of its rejected side from `bounds[3 * n + 2]` to `bounds[3 * n + 3]`."""
    odd: frozenset[int]
    """Rows with a turn that is not plain; they have no turns here."""

    def suspicious(self, special: SpecialTokens, piece: Piece) -> set[int]:
        """Rows whose contents hold a special token, or could become part of one.

        Most contents have none of the characters that special tokens begin or end with, and are
        longer than all of them; only the others are examined.
        """
        contents = self.contents
        suspects = list(range(len(contents)))
        if special.ends:
            longest, tokens = special.longest, special.joined
            inner = enumerate(map(str.strip, contents))
            suspects = [n for n, text in inner if len(text) < longest and text in tokens]
            for end in piece.may_hold(special.ends):
                suspects += [n for n, text in enumerate(contents) if end in text]
        guilty = {n for n in suspects if not special.innocent(contents[n])}
        return {(bisect_right(self.bounds, n) - 1) // 3 for n in guilty}


@dataclass(frozen=True)
class Plain:
    """The rows of a piece, of which all may be replayed but those with odd turns."""

    piece: Piece
    turns: Conversations
    tools: Sequence[str | None]
    settings: Sequence[str | None]

    @classmethod
    def nothing(cls, piece: Piece) -> "Plain":
        """No row."""
        return cls(piece, Conversations([], [], [], [0], frozenset()), (), ())

    def rows(self, start: int, stop: int) -> Iterable[tuple[Any, ...]]:
        """Per row: its number, tools, settings, and the four bounds of its turns (`bounds`)."""
        bounds = (self.turns.bounds[3 * start + n : 3 * stop + (n + 2) // 3 : 3] for n in range(4))
        context = (self.tools[start:stop], self.settings[start:stop])
        return zip(range(start, stop), *context, *bounds, strict=True)

    def sides(self, row: int) -> tuple[Side, Side]:
        """One row's chosen and rejected side."""
        a, b, c, d = self.turns.bounds[3 * row : 3 * row + 4]
        roles, contents = self.turns.roles, self.turns.contents
        context = (self.tools[row], self.settings[row], *roles[a:b])
        return (
            ((*context, *roles[b:c]), contents[a:c]),
            ((*context, *roles[c:d]), contents[a:b] + contents[c:d]),
        )


def conversations_of(piece: Piece, apart: Collection[int] = ()) -> Conversations:
    """The turns of a piece's rows, except for those of the rows `apart`."""
    parts, odd = _parsed(piece)
    odd |= set(apart)
    plain = _plain(_without(parts, odd))
    if plain is None:
        odd |= {n for n in range(piece.count) if _plain(parts[3 * n : 3 * n + 3]) is None}
        plain = _plain(_without(parts, odd))
        assert plain is not None, "the others have been asked one by one"
    return Conversations(*plain, [0, *accumulate(map(len, parts))], frozenset(odd))


def _parsed(piece: Piece) -> tuple[list[Any], set[int]]:
    """Three values for every row; and the rows that this parser cannot read as three JSON values,
    which get empty lists."""
    parts = _json(piece.text, 3 * piece.count)
    if parts is not None:
        return parts, set()
    parts, odd = list[Any](), set[int]()
    for n in range(piece.count):
        row = _json(b"[" + piece.row(n) + b"]", 3)
        if row is None:
            odd.add(n)
        parts += [[], [], []] if row is None else row
    return parts, odd


def _json(text: bytes, count: int) -> list[Any] | None:
    try:
        values = orjson.loads(text)
    except ValueError:
        return None
    return values if len(values) == count else None


def _without(parts: list[Any], rows: Collection[int]) -> list[Any]:
    """The same list, changed in place: these rows have no turns any more."""
    for n in rows:
        parts[3 * n : 3 * n + 3] = [], [], []
    return parts


def _plain(parts: Sequence[Any]) -> tuple[list[str], list[str], list[bytes]] | None:
    """Roles, contents, and contents as UTF-8, if every turn of every part is plain; else None."""
    if set(map(type, parts)) - {list}:
        return None
    turns = list(chain.from_iterable(parts))
    try:
        roles, contents = list(map(ROLE, turns)), list(map(CONTENT, turns))
        names, encoded = set(roles), list(map(str.encode, contents))
    except (KeyError, TypeError):  # a turn without them, or with other things in their place
        return None
    alone = not set(map(len, turns)) - {2} and not {*map(type, names)} - {str}
    return (roles, contents, encoded) if alone and all(contents) else None
