"""Which rows of a source are kept, by the values in their columns.

    where: {language: [en, de], meta.score: {min: 4}, deleted: null}

A row is kept if every column has one of the values, or lies in the range. Dotted paths reach into a
column. `null` stands for null, empty text and a missing column. Text, as in CSV files, equals the
number or truth value that it spells.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Self, cast

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from tasks.artifact import Params
from tasks.errors import meant, shown, some


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError("expected text, a number, true, false or null")


Value = Annotated[str | bool | int | float | None, BeforeValidator(_scalar)]


class Range(Params):
    """Numbers from `min` to `max`, both included; one of them may be left open."""

    min: float | None = None
    """The lowest number that is wanted; null: any up to `max`."""
    max: float | None = None
    """The highest number that is wanted; null: any from `min` on."""

    @model_validator(mode="after")
    def _holds_something(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"found min {self.min:g} above max {self.max:g}")
        return self

    def __str__(self) -> str:
        low = "" if self.min is None else f"at least {self.min:g}"
        high = "" if self.max is None else f"at most {self.max:g}"
        return " and ".join(filter(None, (low, high)))


def _form(condition: Any) -> str:
    """The form of a condition, so that pydantic reports faults of that form only."""
    if isinstance(condition, Mapping | Range):
        return "range"
    return "list" if isinstance(condition, list | tuple) else "value"


Condition = Annotated[
    Annotated[Value, Tag("value")]
    | Annotated[tuple[Value, ...], Field(min_length=1), Tag("list")]
    | Annotated[Range, Tag("range")],
    Discriminator(_form),
]
Where = Mapping[str, Condition]


def unmet(row: Mapping[str, Any], where: Where) -> str | None:
    """The path of the first condition that a row does not meet; None if it meets all."""
    return next((path for path in where if not _meets(value_at(row, path), where[path])), None)


def refusal(row: Mapping[str, Any], where: Where, path: str) -> str:
    """Message on a row that does not meet the condition at `path`."""
    has = f"{path} is {shown(value_at(row, path), 40)}"
    if path.partition(".")[0] not in row:
        has = f"has no {path!r} among {some([*row], 12)}{meant(path, row)}"
    return f"{has}, expected {_worded(where[path])}"


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or of a column with that whole name; None if there is neither."""
    if path in row:
        return row[path]
    value: Any = row
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = cast(Mapping[str, Any], value).get(part)
        elif isinstance(value, list) and part.isdecimal():
            listed = cast(list[Any], value)
            value = listed[int(part)] if int(part) < len(listed) else None
        else:
            return None
    return value


def _meets(value: Any, condition: Condition) -> bool:
    if isinstance(condition, Range):
        number = _number(value)
        low = condition.min is None or (number is not None and number >= condition.min)
        return number is not None and low and (condition.max is None or number <= condition.max)
    wanted = condition if isinstance(condition, tuple) else (condition,)
    return any(_equal(value, each) for each in wanted)


def _equal(value: Any, wanted: Value) -> bool:
    if wanted is None:
        return value is None or value == ""
    if isinstance(wanted, str):
        return value == wanted
    if isinstance(wanted, bool):
        return value is wanted or (isinstance(value, str) and value.lower() == str(wanted).lower())
    return _number(value) == wanted


def _number(value: Any) -> float | None:
    """The number that a value is or spells; None for others, and for truth values."""
    if isinstance(value, int | float):
        return None if isinstance(value, bool) else value
    if isinstance(value, str) and "_" not in value:  # Python reads 12_5 as 125
        for kind in (int, float):  # a float has no place for the last digits of a long id
            with suppress(ValueError):
                return kind(value)
    return None


def _worded(condition: Condition) -> str:
    if isinstance(condition, Range):
        return str(condition)
    wanted = condition if isinstance(condition, tuple) else (condition,)
    return " or ".join("null" if each is None else shown(each, 40) for each in wanted)
