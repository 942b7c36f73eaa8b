"""Conversations of many rows, parsed at once, and which of them are plain.

In:  a column of JSON texts, each a list of turns.
Out: all their turns one after the other, as roles and contents.

    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]     row 0
    [{"role": "user", "content": "And?"}]                                               row 1
        ->  roles user, assistant, user   contents Hi, Hello., And?   bounds 0, 2, 3

A turn is plain that has a role, words, and nothing else. Looking at all turns together costs a
fraction of looking at each: only where one is found wanting, every row is asked.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter
from sys import intern
from typing import Any

import orjson

from tasks.templating.special_tokens import SpecialTokens

ROLE, CONTENT = itemgetter("role"), itemgetter("content")


@dataclass(frozen=True)
class Turns:
    """The turns of one column's conversations, one after the other."""

    roles: list[str]
    contents: list[str]
    bounds: list[int]
    """Row `i` has the turns from `bounds[i]` to `bounds[i + 1]`."""
    odd: frozenset[int]
    """Rows with a turn that is not plain; they have no turns here."""

    def suspicious(self, special: SpecialTokens) -> set[int]:
        """Rows whose words hold a special token, or could complete one.

        Most texts hold none of the characters that special tokens begin or end with, and are
        longer than any; only the others are looked at closely.
        """
        asked = range(len(self.contents))
        if special.ends:
            longest, lengths = special.longest, map(len, map(str.strip, self.contents))
            asked = [n for n, length in enumerate(lengths) if length < longest]
            for end in special.ends:
                asked += [n for n, text in enumerate(self.contents) if end in text]
        found = (n for n in asked if not special.innocent(self.contents[n]))
        return {bisect_right(self.bounds, n) - 1 for n in found}


def turns_of(texts: Sequence[bytes]) -> Turns:
    """The turns of a column of conversations.

    Raises:
        ValueError: a text is no JSON, or not one value, to this parser.
    """
    rows: list[Any] = orjson.loads(b"[" + b",".join(texts) + b"]")
    if len(rows) != len(texts):
        raise ValueError("a text is not one JSON value")
    odd: frozenset[int] = frozenset()
    plain = _plain(rows)
    if plain is None:
        odd = frozenset(n for n, row in enumerate(rows) if _plain([row]) is None)
        rows = [[] if n in odd else row for n, row in enumerate(rows)]
        plain = _plain(rows)
        assert plain is not None, "the others have been asked one by one"
    roles, contents = plain
    return Turns(list(map(intern, roles)), contents, [0, *accumulate(map(len, rows))], odd)


def _plain(rows: Sequence[Any]) -> tuple[list[str], list[str]] | None:
    """Roles and contents, where every turn of every row has a role, words, and nothing else."""
    if set(map(type, rows)) - {list}:
        return None
    turns = list(chain.from_iterable(rows))
    if set(map(type, turns)) - {dict} or set(map(len, turns)) - {2}:
        return None
    try:
        roles, contents = list(map(ROLE, turns)), list(map(CONTENT, turns))
    except KeyError:
        return None
    words = not {*map(type, roles), *map(type, contents)} - {str} and all(contents)
    return (roles, contents) if words else None
