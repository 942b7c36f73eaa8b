"""Layout `columns`: flat rows under any names, told by a mapping in the params file.

With `columns: {prompt: question, chosen: better, rejected: worse, margin: gap}` the row

    {"question": "Is it red?", "better": " Yes", "worse": " No", "gap": "1.5", "id": 7}

becomes, names first,

    {"prompt": "Is it red?", "chosen": " Yes", "rejected": " No", "margin": "1.5", "id": 7}

and then one pair: prompt "Is it red?", chosen " Yes" (spaces as they are), rejected " No",
margin 1.5. A column that is not mapped keeps its name. `system`, `weight`, `score_chosen` and
`score_rejected` are only read when they are mapped, as is `preference`: from 0 to 1, how sure it
is that chosen is the better answer, where below 0.5 the sides change places and 0.5 is a tie. The
margin of two scores is their difference, and equal ones are a tie; with a `system`, prompt and
answers become messages. Messages may be under `from` and `value`, one may stand without a list
around it, and they may be JSON text in the cells of a column (`json_cells`).
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeGuard, cast

from tasks.conversion.conversation.turns import as_messages
from tasks.conversion.options import CellOptions
from tasks.conversion.preference.answers import Item
from tasks.conversion.preference.fields import (
    images_of,
    margin_of,
    preference_of,
    score_margin,
    template_kwargs_of,
    tools_of,
    weight_of,
)
from tasks.conversion.preference.pair import IMPLICIT, TIE, Pair
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable, found, not_as_expected
from tasks.errors import meant, shown

Row = dict[str, Any]

ONLY_IF_MAPPED = ("system", "weight", "preference", "score_chosen", "score_rejected")
FIELDS = (
    "prompt",
    "chosen",
    "rejected",
    "margin",
    "tools",
    "chat_template_kwargs",
    "images",
    *ONLY_IF_MAPPED,
)
"""What can be mapped."""


def fits(columns: set[str], row: Row) -> bool:  # noqa: ARG001
    """Never: this layout is asked for, by its name or by a mapping."""
    return False


def renamed(row: Row, mapping: Mapping[str, str], only_if_mapped: Collection[str] = ()) -> Row:
    """The row under the names of the mapping (name here -> name in the source, or a dotted path).

    Raises:
        Unusable: missing_column.
    """
    left_out = set(mapping.values()).union(only_if_mapped)
    result = {column: value for column, value in row.items() if column not in left_out}
    for name, column in mapping.items():
        result[name] = at_path(row, column, null_ok=True)
    return result


def at_path(row: Row, path: str, *, null_ok: bool = False) -> Any:
    """The value at a dotted path, such as `answers.0.text`; or in a column of that very name.

    `null_ok`: null also where an object or list on the path is null, as tables have it.

    Raises:
        Unusable: missing_column.
    """
    if path in row or "." not in path:
        return required(row, path)
    value: Any = row
    parts = path.split(".")
    for depth, part in enumerate(parts):
        listing = cast(list[Any], value) if isinstance(value, list) else []
        if part.isdecimal() and int(part) < len(listing):
            value = listing[int(part)]
        elif is_object(value):
            value = required(value, part)
        elif value is None and null_ok:
            return None
        else:
            before = ".".join(parts[:depth])
            found_here = f"found {found(value)} at {before!r}, expected "
            raise Unusable("missing_column", path, found_here + _expected_at(before, part, value))
    return value


def _expected_at(before: str, part: str, value: Any) -> str:
    """What a dotted path wants of the value at `before`, of which it names a part, and what to
    do."""
    if not isinstance(value, list):
        return f"an object or a list that holds {part!r}: shorten the path, or correct the row"
    if part.isdecimal():
        return f"an item {part}, counted from 0: correct the path or the row"
    return f"an object with {part!r}: name one item, as in {before}.0.{part}"


def is_object(value: Any, *keys: str) -> TypeGuard[Row]:
    """Whether a value is an object with these keys."""
    return isinstance(value, dict) and all(key in value for key in keys)


def head_of(path: str) -> str:
    """The column that a dotted path leads into."""
    return path.partition(".")[0]


def required(row: Row, column: str) -> Any:
    """The row's value in a column that it has to have.

    Raises:
        Unusable: missing_column, with the columns found and the nearest of them.
    """
    if column in row:
        return row[column]
    listed = ", ".join(shown(name, 30) for name in list(row)[:12]) or "none"
    raise Unusable(
        "missing_column",
        column,
        f"found the columns {listed}, expected {column!r}{meant(column, row)}",
    )


def read(row: Row, options: CellOptions) -> list[Item]:  # noqa: ARG001
    """As `pairs`; `reading` sees to what the options say of cells and format."""
    return pairs(row)


def pairs(row: Row) -> list[Item]:
    """The one pair, or the tie, of a row whose columns bear the names of `FIELDS`.

    Raises:
        Unusable: missing_column, wrong_type, or the reason of a single value.
    """
    prompt = as_messages(row.get("prompt", IMPLICIT))
    if "system" in row:
        prompt = with_system(row["system"], prompt)
    margin, difference = margin_of(row.get("margin")), None
    if "score_chosen" in row or "score_rejected" in row:
        difference = score_margin(row.get("score_chosen"), row.get("score_rejected"))
    pair = Pair(
        prompt=prompt,
        chosen=as_messages(required(row, "chosen")),
        rejected=as_messages(required(row, "rejected")),
        tools=tools_of(row.get("tools")),
        chat_template_kwargs=template_kwargs_of(row.get("chat_template_kwargs")),
        margin=difference if margin is None else margin,
        weight=weight_of(row.get("weight")),
        preference=preference_of(row.get("preference")),
        images=images_of(row.get("images")),
    )
    if difference == 0 or pair.preference == TIE:
        field = "score_chosen" if difference == 0 else "preference"
        return [Tie(field, f"found {found(row[field])}: a tie prefers neither answer", [pair])]
    return [pair]


def with_system(system: Any, prompt: Any) -> Any:
    """The prompt as messages, after the system's text if there is some.

    Raises:
        Unusable: wrong_type.
    """
    if system is not None and not isinstance(system, str):
        raise not_as_expected(system, "system", "text or null")
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    if not isinstance(prompt, list):
        raise not_as_expected(prompt, "prompt", "text or messages")
    opening = [{"role": "system", "content": system}] if system and system.strip() else []
    return opening + prompt
