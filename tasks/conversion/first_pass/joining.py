"""Rows of one group become pairs: the answers that several rows hold, set against each other.

In:  the answers of one group, each with the row that it came from.
Out: pairs, ties and lone answers, each with a row: that of the answer that is chosen.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from tasks.conversion.options import LabelOptions, RankingOptions
from tasks.conversion.preference.answers import Answer, alone, joined
from tasks.conversion.preference.pair import Pair
from tasks.conversion.unusable import Unusable


class Origin(NamedTuple):
    """A row of a source, and where it stands."""

    source: str
    file: str
    row: int
    raw: str


Joined = tuple[Pair | Unusable, Origin]
"""A pair or what prevents it, and the row that it is booked on."""


def join(answers: Sequence[tuple[Answer, Origin]], options: object) -> list[Joined]:
    """What becomes of a group's answers: one item at least.

    A row that states the prompt for others, but no answer of its own, is none of the answers. A
    group without any pair gives one `unpaired_alone` for each of its rows.
    """
    assert isinstance(options, RankingOptions | LabelOptions), "a layout that joins can be ruled"
    stated = [answer.prompt for answer, _ in answers if answer.prompt is not None]
    prompt = min(stated, key=_dumped, default=None)  # whatever the order of the rows
    usable = [
        (replace(a, prompt=prompt) if a.prompt is None else a, origin)
        for a, origin in answers
        if a.completion is not None
    ]
    if prompt is None and usable:
        return [(_no_prompt(), origin) for _, origin in answers]
    items = joined([answer for answer, _ in usable], options)
    if not items:
        return [(alone(len(answers), "rows"), origin) for _, origin in answers]
    return [(item, usable[position][1]) for item, position in items]


def _dumped(prompt: Any) -> bytes:
    return orjson.dumps(prompt, option=orjson.OPT_SORT_KEYS)


def _no_prompt() -> Unusable:
    return Unusable(
        "no_prompt",
        "prompt",
        "found a prompt in none of the rows that this id joins, expected it in one of them",
    )
