"""Prompt and answers of a row that holds one simple pair: the fast lane's way to read a row.

In:  a row's values, and the layout of its source.
Out: `Parts`: what the row's one pair is made of, and notes; or None for any other row.

    a layout with `sides`   columns ─────────────────── parted ─┐
    any other one           its reading ─ one pair ─ checked ───┴─ Parts

The result equals that of `read` and `checked`, or is None: then the slow lane reads the row with
these two, and reports what is wrong with it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tasks.conversion.layouts import LAYOUTS
from tasks.conversion.layouts.columns import Row
from tasks.conversion.layouts.known import Sides
from tasks.conversion.options import Options
from tasks.conversion.preference.pair import ANSWER_TEXT, IMPLICIT, TIE, Pair, answer_turn, checked
from tasks.conversion.preference.prompts import separated_messages, separated_text


class RareFields(NamedTuple):
    """Values that few pairs have, for the columns of the same names."""

    margin: float | None = None
    weight: float = 1.0
    preference: float = 1.0
    comparison: str | None = None
    chosen_first: bool | None = None


Parts = tuple[Any, Any, Any, Sequence[str], RareFields]
"""Prompt, chosen and rejected, as text or as messages; notes; and the rest."""
PartsOf = Callable[[Row], Parts | None]
NO_RARE_FIELDS = RareFields()
"""Recognised by identity (`is`)."""


def parts_of(
    layout: str, mapped: bool, options: Options, read: Callable[[Row], Sequence[Any]]
) -> PartsOf:
    """The function that gives the parts of a source's rows.

    `read` is the source's `layouts.reader`; `mapped` says whether its columns are renamed. For rows
    of another form the function returns None or raises one of `usual.NOT_USUAL`.
    """
    sides = LAYOUTS[layout].sides
    if sides is None or mapped or options.model_fields_set:
        return lambda row: _of_items(read(row))
    return lambda row: _of_sides(sides(row))


def _of_items(items: Sequence[Any]) -> Parts | None:
    if len(items) != 1 or type(items[0]) is not Pair:
        return None
    pair = checked(items[0])
    if not (pair.tools is pair.chat_template_kwargs is pair.images is None):
        return None
    if pair.preference == TIE:
        return None
    rare = RareFields(pair.margin, pair.weight, pair.preference, pair.comparison, pair.chosen_first)
    rare = NO_RARE_FIELDS if rare == NO_RARE_FIELDS else rare
    return pair.prompt, pair.chosen, pair.rejected, pair.notes, rare


def _of_sides(values: Sides | None) -> Parts | None:
    """The parts of the row's columns, with prompt and answers separated as `checked` does it. That
    they are messages or texts at all is not checked here but in `usual`."""
    if values is None:
        return None
    prompt, chosen, rejected, margin = values
    rare = NO_RARE_FIELDS if margin is None else RareFields(margin)
    asked, answered = type(prompt), type(chosen)
    if asked is answered is list and len(chosen) == len(rejected) == 1:
        return prompt, chosen, rejected, (), rare
    notes: list[str] = []
    if answered is str and asked is list:
        notes.append(ANSWER_TEXT)
        return prompt, answer_turn(chosen), answer_turn(rejected), notes, rare
    if prompt is IMPLICIT:
        prompt = None
    elif asked is not str and asked is not list:
        return None
    separated = separated_messages if answered is list else separated_text
    first, one, other = separated(prompt, chosen, rejected, notes)
    return first, one, other, notes, rare
