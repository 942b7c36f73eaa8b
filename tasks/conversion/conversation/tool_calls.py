"""The calls of tools that a message holds, checked.

In:  the value under `tool_calls`, as a source wrote it.
Out: the same calls, without the keys that are null; what they hand the tool stays as it is.

    [{"id": null, "function": {"name": "f", "arguments": {"city": null}}}]
    ->  [{"function": {"name": "f", "arguments": {"city": null}}}]
        with the note "null among the arguments of a tool call kept"

Whether a null among the arguments was meant cannot be told here: rows that were written out of a
table have one wherever another row has a value. `nulls` leaves out those of tables.
"""

from typing import Any, cast

import orjson

from tasks.conversion.conversation.printed_nulls import without_nulls
from tasks.conversion.unusable import Unusable, found

Call = dict[str, Any]

KEPT_NULL = "null among the arguments of a tool call kept"


def checked_calls(value: Any, field: str, notes: list[str]) -> list[Call]:
    """The calls; nulls among their arguments are noted.

    Raises:
        Unusable: bad_tool_call.
    """
    calls = cast(list[Any], value) if isinstance(value, list) else [value]
    for i, call in enumerate(calls):
        outer = _said(call)
        function = _said(outer.get("function", outer))
        if not isinstance(value, list) or not isinstance(function.get("name"), str):
            raise Unusable(
                "bad_tool_call",
                f"{field}[{i}]",
                f"found {found(call)}, expected a list of objects like "
                '{"type": "function", "function": {"name": ..., "arguments": {...}}}',
            )
        check_id(outer.get("id"), f"{field}[{i}].id")
        _check_arguments(function.get("arguments"), f"{field}[{i}].arguments", notes)
    return [_without_null_keys(call) for call in calls]


def check_id(value: Any, field: str) -> None:
    """Raises Unusable (bad_tool_call) unless this is the id of a call, or null."""
    if not isinstance(value, str | int | float | None):
        raise Unusable(
            "bad_tool_call", field, f"found {found(value)}, expected the id of a call, as text"
        )


def _said(value: Any) -> Call:
    """An object without the keys that are null, but for its arguments: templates print them."""
    entries = cast(Call, value).items() if isinstance(value, dict) else ()
    return {key: each for key, each in entries if each is not None or key == "arguments"}


def _without_null_keys(call: Call) -> Call:
    outer = _said(call)
    return outer | {"function": _said(outer["function"])} if "function" in outer else outer


def _check_arguments(arguments: Any, field: str, notes: list[str]) -> None:
    """Arguments are an object or its JSON text, or "" for none; a text stays as it is, byte for
    byte."""
    value = arguments
    if isinstance(arguments, str):
        if not arguments:
            return
        try:
            value = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            value = arguments
    if value is not None and not isinstance(value, dict):
        raise Unusable(
            "bad_tool_call",
            field,
            f"found {found(arguments)}, expected a JSON object, or the JSON text of one",
        )
    if value is arguments and without_nulls(arguments) != arguments:
        notes.append(KEPT_NULL)
