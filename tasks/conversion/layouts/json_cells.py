r"""Cells that hold messages as JSON text, as those of a CSV file do: decided once per column.

    {"prompt": "Hi", "chosen": "[{\"role\": \"assistant\", \"content\": \"Hello.\"}]",
     "rejected": "[{\"role\": \"assistant\", \"content\": \"No.\"}]"}

A column holds messages when each text that stands in it among the first rows of the source is the
JSON of a list of messages, or of one: objects with `role` and `content`, or with `from` and
`value`. All of its cells are then read so, and one that cannot be is `bad_json`, wherever it
stands. Where most of the first texts are something else, the column holds texts, those included
that happen to be such JSON: no cell is judged by itself. Where most are messages, but not all, a
cell may be cut off as well as a text be like messages: such a source is refused, unless its options
tell. `options: {json_columns: [chosen, rejected]}` says which columns hold messages whatever the
first rows are, and `json_columns: []` that none does.

Not JSON is what Python prints of a list, "[{'role': 'user', ...": as text it would be trained on
as an answer, so a column of such cells is refused.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import orjson

from tasks.conversion.conversation.json_text import json_value
from tasks.conversion.conversation.turns import as_messages
from tasks.conversion.layouts.columns import Row, is_object
from tasks.conversion.unusable import Unusable, found

COLUMNS = ("prompt", "chosen", "rejected")
"""Columns that may hold messages."""
CHOICES = [names for n in range(1, 4) for names in combinations(COLUMNS, n)]
"""All results of `holding` but the empty one."""
LEAST = 2
"""Texts of a column that have to be messages before one that is none counts as odd."""
_PRINTED = re.compile(r"\s*(array\()?\[?\s*\{\s*'(role|content|from|value)'\s*:")


def holding(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns whose texts are messages as JSON, all of them."""
    return tuple(name for name in COLUMNS if _all(rows, name, _opened))


@dataclass(frozen=True)
class Odd:
    """A text that is no messages, in a column whose first texts mostly are."""

    column: str
    place: int
    """Number of its row, from 0."""
    what: str
    """The text in words, for the error message."""
    messages: int
    """How many of the column's texts are messages."""
    texts: int
    alike: tuple[str, ...]
    """All columns whose first texts mostly are messages."""


def odd(rows: Sequence[Row]) -> Odd | None:
    """The first such text: where half of the column's texts are messages, and two at least."""
    texts = {column: _texts(rows, column) for column in COLUMNS}
    others = {
        column: {place: text for place, text in by_row.items() if not _opened(text)}
        for column, by_row in texts.items()
    }
    messages = {column: len(texts[column]) - len(others[column]) for column in COLUMNS}
    alike = tuple(c for c in COLUMNS if messages[c] >= max(LEAST, len(others[c])))
    for column in alike:
        for place, text in others[column].items():
            return Odd(column, place, _described(text), messages[column], len(texts[column]), alike)
    return None


def printed(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns whose texts are messages as Python prints them."""
    return tuple(name for name in COLUMNS if _all(rows, name, _PRINTED.match))


def opened(row: Row, columns: Collection[str]) -> Row:
    """The row with the messages that these columns hold; blank cells are null.

    Raises:
        Unusable: bad_json, with the column.
    """
    if not columns:
        return row
    return {name: _cell(value, name) if name in columns else value for name, value in row.items()}


def _cell(value: Any, column: str) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    messages = _opened(value)
    if messages is None:
        raise Unusable(
            "bad_json",
            column,
            f"found {found(value)}, expected messages as JSON, as the column's other cells hold: "
            '[{"role": ..., "content": ...}, ...]; correct the cell, or say with options '
            "json_columns which columns hold messages",
        )
    return messages


def _opened(text: str) -> list[Any] | None:
    """The messages, at least one, that a text is the JSON of; None where it is of none."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        value = as_messages(json_value(text))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, list) or not value:
        return None
    turns = cast(list[Any], value)
    said = {"content", "tool_calls"}
    return turns if all(is_object(turn, "role") and said & turn.keys() for turn in turns) else None


def _texts(rows: Sequence[Row], column: str) -> dict[int, str]:
    """The texts in a column that are not blank, by the number of their row."""
    values = ((place, row.get(column)) for place, row in enumerate(rows))
    return {place: v for place, v in values if isinstance(v, str) and v.strip()}


def _all(rows: Sequence[Row], column: str, test: Callable[[str], object]) -> bool:
    """Whether there are texts in the column, and all of them pass the test."""
    texts = _texts(rows, column).values()
    return bool(texts) and all(test(text) for text in texts)


def _described(text: str) -> str:
    """A text that is no messages, in words; with the parser's error where it begins like JSON."""
    if text.lstrip()[:1] not in ("[", "{"):
        return found(text)
    try:
        json_value(text)
    except orjson.JSONDecodeError as error:
        return f"{found(text)}, which is no JSON ({error})"
    return found(text)
