"""The usual rows of a batch, told at a glance: they need none of the repairs that `pair` makes.

In:  the bytes of rows, and what tells prompt, chosen and rejected of a row (`Layout.sides`).
Out: for each usual row its texts as they are stored, hashed and compared; and the others' places.

Usual is a row in canonical form: messages of role and content and nothing else, in that order, one
answer on each side, in texts that differ and that Unicode composition leaves as they are. Whatever
else a row may be is for `pair`, which comes to the same result for these, and is the one place
where a fault is put into words. So this asks no more than it must: what is no such row fails
somewhere on the way, and is left to the long one.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from tasks.conversion.characters import SETTLED, Levels, levels_of
from tasks.conversion.messages import ROLES

Sides = Callable[[Any], tuple[Any, Any, Any] | None]
MOST_FORMS, MOST_TURNS = 4096, 64
"""Orders of roles that are remembered, and their length."""
_KEYS = ["role", "content"]
_MESSAGE = tuple(_KEYS)
_NOT_USUAL = (TypeError, ValueError, KeyError, AttributeError)
"""What taking a row for a usual one raises where it is none: other kinds of values, other keys."""


class Usual(NamedTuple):
    """One usual row."""

    place: int
    """Of the row among those given."""
    prompt: bytes
    chosen: bytes
    rejected: bytes
    """What is stored: JSON."""
    text: bytes
    """What the pair's id is made of."""
    turns: bytes
    """The prompt's roles and contents, as its group is made of them before they are folded."""
    compared: tuple[bytes, bytes, bytes]
    """Prompt, chosen and rejected with every content stripped."""
    longer: int
    """By how many characters the chosen answer is longer."""


def usual_rows(raws: Sequence[bytes], sides: Sides) -> tuple[list[Usual], Levels, list[int]]:
    """The usual rows, what `characters` says of each one's text, and the places of the others."""
    usual: list[Usual] = []
    others: list[int] = []
    for place, raw in enumerate(raws):
        try:
            found = _usual(place, sides(orjson.loads(raw)))
        except _NOT_USUAL:
            found = None
        if found is None:
            others.append(place)
        else:
            usual.append(found)
    levels = levels_of([each.text for each in usual])
    settled = levels <= SETTLED
    if not settled.all():
        others = sorted(
            [*others, *(each.place for each, s in zip(usual, settled, strict=True) if not s)]
        )
        usual = [each for each, s in zip(usual, settled, strict=True) if s]
    return usual, levels[settled], others


def _usual(place: int, given: Any) -> Usual | None:
    """None, or one of `_NOT_USUAL`, where it is none."""
    prompt, (better,), (worse,) = given
    if [*map(tuple, prompt)] != [_MESSAGE] * len(prompt) or not [*better] == _KEYS == [*worse]:
        return None
    form = _FORMS[tuple([message["role"] for message in prompt])]
    asked = [message["content"] for message in prompt]
    a, b = better["content"], worse["content"]
    bare = [content.strip() for content in asked]
    bare_a, bare_b = a.strip(), b.strip()
    if not (form and bare_a and bare_b) or bare_a == bare_b:
        return None
    if not better["role"] == "assistant" == worse["role"]:
        return None
    dumped = orjson.dumps(prompt), orjson.dumps([better]), orjson.dumps([worse])
    text = b"%b\0%b\0%b\0\0" % dumped
    compared = (
        dumped[0] if bare == asked else _dumped(prompt, bare),
        dumped[1] if bare_a == a else _dumped([better], [bare_a]),
        dumped[2] if bare_b == b else _dumped([worse], [bare_b]),
    )
    turns = (form % tuple(asked)).encode()
    return Usual(place, *dumped, text, turns, compared, len(a) - len(b))


def _dumped(messages: list[dict[str, Any]], contents: Sequence[str]) -> bytes:
    """The messages' JSON with other contents."""
    pairs = zip(messages, contents, strict=True)
    return orjson.dumps([m | {"content": content} for m, content in pairs])


class _Forms(dict[tuple[Any, ...], str]):
    """How the turns of a prompt with these roles are written one after the other.

    Empty where a role is unknown; where a tool answers, whose call has to be looked for; and where
    the first turn is an answer, which both sides may repeat.
    """

    def __missing__(self, roles: tuple[Any, ...]) -> str:
        known = all(type(role) is str and role in ROLES and role != "tool" for role in roles)
        if not known or not roles or roles[0] == "assistant":
            return ""
        form = " ".join(f"{role} \0 %s \0" for role in roles)
        if len(self) < MOST_FORMS and len(roles) < MOST_TURNS:
            self[roles] = form
        return form


_FORMS = _Forms()
