"""The fast lane: finds usual rows, and makes what is stored of them and their digests.

In:  the bytes of rows, and the function that gives the parts of a row (`parts`).
Out: for each usual row its texts as they are stored and its digests; the places of all other rows.

A usual row holds one pair: of texts, or of messages that have nothing but role and content (and
keys that are null, as rows of a table do), with a prompt and one answer on each side, which differ.
(`usual_pairs` checks for many rows at once that Unicode normalisation changes none of the texts.)
Every other row goes to `shard_pairs`, which gives the same result for usual rows, and is the one
place that reports faults. So the checks here are minimal: a row that is not usual fails somewhere
on the way, and is left to the slow lane.

    raw -> values -> parts -> messages [prompt ..., better, worse] -> JSON as stored -> digests
                                texts  [prompt, better, worse]     ┘

Each row is finished before the next one is parsed: its values are then still in the processor's
nearest cache, and no list of rows is traversed twice.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from operator import itemgetter, methodcaller
from typing import Any

import orjson

from tasks.conversion.conversation.messages import ROLES
from tasks.conversion.first_pass.parts import Parts, PartsOf, RareFields
from tasks.conversion.preference.identity import DIGEST_BYTES
from tasks.conversion.preference.signals import JSON_TURN, WRITTEN_TURN
from tasks.conversion.unusable import Unusable

Texts = tuple[bytes, bytes, bytes]
Usual = tuple[
    int, bytes, bytes, bytes, bytes, bytes, bytes, int, bytes, bool, Sequence[str], RareFields
]
"""One usual row; a bare tuple, for it is made of every row:

    0      place     of the row in its batch
    1 2 3            prompt, chosen and rejected as they are stored: JSON
    4                the digest of all three: the pair's id
    5 6              those of both answers with the prompt, every content stripped
    7      longer    by how many characters the chosen answer is longer
    8      turns     the prompt's roles and contents, as its group is made of them once folded
    9      whether it is a conversation, not texts
    10 11  notes, and what few pairs say
"""
Turns = tuple[list[dict[str, str]], list[str], list[str], list[bytes]]
MOST_FORMS, MOST_TURNS = 4096, 64
"""How many orders of roles are cached, and the longest of them."""
_KEYS: list[str] = [*orjson.loads(b'{"role":0,"content":0}')]
"""As the parser gives them: it caches keys, and identical objects compare fastest."""
_role, _content = map(itemgetter, _KEYS)
_values = methodcaller("values")
NOT_USUAL = (Unusable, TypeError, ValueError, LookupError, AttributeError)
"""What may be raised for a row that is not usual: by values of other types, by other keys."""
_DIGEST = blake2b(digest_size=DIGEST_BYTES)
"""Copied for each digest: cheaper than making one."""


def usual_rows(
    raws: Iterable[bytes | memoryview], parts: PartsOf, first: int = 0
) -> tuple[list[Usual], list[int]]:
    """The usual rows, whatever their characters, and the places of the others.

    `first` is the place of the first row.
    """
    usual: list[Usual] = []
    others: list[int] = []
    for place, raw in enumerate(raws, first):
        try:
            row_parts = parts(orjson.loads(raw))
            row = None if row_parts is None else _usual(place, row_parts)
        except NOT_USUAL:
            row = None
        if row is None:
            others.append(place)
        else:
            usual.append(row)
    return usual, others


def usual_messages(prompt: Any, chosen: Any, rejected: Any) -> Turns | None:
    """Prompt, better and worse answer as one list of messages with their keys in order; their
    contents; the contents stripped; and the form of the prompt's turns.

    Returns None, or raises one of `NOT_USUAL`, where the row is not usual.
    """
    (better,), (worse,) = chosen, rejected
    messages = [*prompt, better, worse]
    keys = [*chain.from_iterable(messages)]
    if keys != _KEYS * len(messages):
        values = [*chain.from_iterable(map(_values, messages))]
        if len(values) - values.count(None) != 2 * len(messages):
            return None  # now each has two values: role and content, in any order
        messages = [{"role": m["role"], "content": m["content"]} for m in messages]
    form = _FORMS[tuple(map(_role, messages))]
    contents = [*map(_content, messages)]
    bare = [*map(str.strip, contents)]
    if not form or not bare[-2] or not bare[-1] or bare[-2] == bare[-1]:
        return None
    return messages, contents, bare, form


def _usual(place: int, parts: Parts) -> Usual | None:
    """The row in usual form; returns None or raises one of `NOT_USUAL` where it is not usual."""
    prompt, chosen, rejected, notes, rare = parts
    if type(chosen) is str:
        return _usual_texts(place, parts)
    turns = usual_messages(prompt, chosen, rejected)
    if turns is None:
        return None
    messages, contents, bare, form = turns
    stored = orjson.dumps(messages[:-2]), orjson.dumps(messages[-2:-1]), orjson.dumps(messages[-1:])
    compared = stored if bare == contents else _compared(messages, bare)
    *asked, a, b = contents
    form = form.copy()
    form[1::2] = map(str.encode, asked)
    digests = _digests(stored, compared)
    longer = len(a) - len(b)
    return place, *stored, *digests, longer, b"".join(form), True, notes, rare


def _usual_texts(place: int, parts: Parts) -> Usual | None:
    """The same of a pair of texts."""
    *texts, notes, rare = parts
    prompt, chosen, rejected = texts
    bare = [*map(str.strip, texts)]
    if not all(bare) or bare[1] == bare[2]:
        return None
    stored = orjson.dumps(prompt), orjson.dumps(chosen), orjson.dumps(rejected)
    if WRITTEN_TURN in stored[0] or WRITTEN_TURN in stored[1] or WRITTEN_TURN in stored[2]:
        return None  # noted with more care
    if stored[0].startswith(JSON_TURN) or stored[1].startswith(JSON_TURN):
        return None
    compared = stored
    if bare != texts:
        compared = orjson.dumps(bare[0]), orjson.dumps(bare[1]), orjson.dumps(bare[2])
    turns = b"user \0 %b \0" % prompt.encode()
    digests, longer = _digests(stored, compared), len(chosen) - len(rejected)
    return place, *stored, *digests, longer, turns, False, notes, rare


def _digests(stored: Texts, compared: Texts) -> Texts:
    """The digests of the pair and of its answers, as `identity` makes them; a prompt whose compared
    form is the stored one is hashed once."""
    prompt, chosen, rejected = stored
    asked, one, other = compared
    whole = _DIGEST.copy()
    whole.update(prompt)
    if asked is prompt:
        context = whole.copy()
    else:
        context = _DIGEST.copy()
        context.update(asked)
    context.update(b"\0\0")
    whole.update(b"\0".join((b"", chosen, rejected, b"", b"")))
    better = _DIGEST.copy()
    better.update(context.digest() + b"\0")
    worse = better.copy()
    better.update(one)
    worse.update(other)
    return whole.digest(), better.digest(), worse.digest()


def _compared(messages: Sequence[dict[str, str]], contents: Sequence[str]) -> Texts:
    """Prompt, chosen and rejected as JSON, with these contents."""
    pairs = zip(messages, contents, strict=True)
    *prompt, better, worse = [message | {"content": content} for message, content in pairs]
    return orjson.dumps(prompt), orjson.dumps([better]), orjson.dumps([worse])


class _Forms(dict[tuple[Any, ...], list[bytes]]):
    """By the roles of all messages: the prompt's turns as a list of bytes to be joined, with gaps
    for the contents at every second place.

    An empty list for roles that the fast lane leaves alone: an unknown role; a tool's turn, whose
    call has to be found; a prompt that begins or ends with an assistant's turn, which the answers
    may repeat; an answer that is not an assistant's.
    """

    def __missing__(self, roles: tuple[Any, ...]) -> list[bytes]:
        *prompt, better, worse = roles
        known = all(type(role) is str and role in ROLES and role != "tool" for role in roles)
        if not known or not prompt or "assistant" in (prompt[0], prompt[-1]):
            return []
        if not better == "assistant" == worse:
            return []
        form = [b""]
        for role in prompt:
            form[-1] += f"{role} \0 ".encode()
            form += [b"", b" \0 "]
        form[-1] = b" \0"
        if len(self) < MOST_FORMS and len(roles) < MOST_TURNS:
            self[roles] = form
        return form


_FORMS = _Forms()
