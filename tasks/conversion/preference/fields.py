"""The single values beside the texts of a pair: numbers, tools, template arguments.

In:  a JSON value as a source wrote it (a CSV cell is text).
Out: a float, or the JSON text that goes into the pair's column; `Unusable` for anything else.
"""

import re
from decimal import Decimal
from math import isfinite
from typing import Any, cast

import orjson

from tasks.conversion.conversation.json_text import json_value
from tasks.conversion.conversation.message_names import RENDERING
from tasks.conversion.conversation.schema_nulls import schema_without_nulls
from tasks.conversion.unusable import Unusable, found

TOO_LARGE = 2**63
"""Readers of JSON round whole numbers from here on, so such a number may not be exact."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def exact_number(value: Any, reason: str, field: str) -> Decimal | None:
    """A number just as it is written, or None for null and for a blank cell.

    `"0.3"` and `0.3` are the same number here, so that 0.3 - 0.1 is 0.2.

    Raises:
        Unusable: `reason`, for NaN, infinity, a boolean, or text that is no plain number.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    number = None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        number = Decimal(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        number = Decimal(repr(value))
    if number is not None and abs(number) < TOO_LARGE:
        return number
    raise Unusable(
        reason,
        field,
        f"found {found(value)}, expected a finite number below 2^63 such as 0.5 (or null); write "
        "it without units, thousands separators or decimal commas",
    )


def margin_of(value: Any) -> float | None:
    """The margin: at least 0, or None where the row states none.

    Raises:
        Unusable: bad_margin.
    """
    number = exact_number(value, "bad_margin", "margin")
    if number is not None and number < 0:
        raise Unusable(
            "bad_margin",
            "margin",
            f"found {found(value)}, expected 0 or more: how much better chosen is; swap chosen and "
            "rejected if rejected is the better one",
        )
    return None if number is None else float(number)


def weight_of(value: Any) -> float:
    """The pair's weight in the loss: above 0, 1 where the row states none.

    Raises:
        Unusable: bad_weight.
    """
    number = exact_number(value, "bad_weight", "weight")
    if number is None:
        return 1.0
    if number <= 0:
        raise Unusable("bad_weight", "weight", f"found {found(value)}, expected a number above 0")
    return float(number)


def preference_of(value: Any) -> float:
    """The probability that chosen is better, from 0 to 1; 1 where the row states none.

    Raises:
        Unusable: bad_label.
    """
    number = exact_number(value, "bad_label", "preference")
    if number is None:
        return 1.0
    if not 0 <= number <= 1:
        raise Unusable(
            "bad_label", "preference", f"found {found(value)}, expected a number from 0 to 1"
        )
    return float(number)


def score_margin(chosen: Any, rejected: Any) -> float:
    """The margin of two scores: chosen minus rejected, exact in decimals; 0 is a tie.

    Raises:
        Unusable: bad_score; score_contradicts_label where rejected has the higher one.
    """
    better = exact_number(chosen, "bad_score", "score_chosen")
    worse = exact_number(rejected, "bad_score", "score_rejected")
    if better is None or worse is None:
        field = "score_chosen" if better is None else "score_rejected"
        raise Unusable("bad_score", field, "found no score, expected a number on both sides")
    if better < worse:
        raise Unusable(
            "score_contradicts_label",
            "score_chosen",
            f"found {better} for chosen and {worse} for rejected, expected chosen to score higher; "
            "if most rows are so, the columns are swapped in the mapping",
        )
    return float(better - worse)


def tools_of(value: Any) -> str | None:
    """JSON text of the tools without keys that are null; None where there are none.

    `value`: a list of function schemas, or the JSON text of one.

    Raises:
        Unusable: bad_tools.
    """
    tools = _parsed(value, "bad_tools", "tools", "a list of function schemas")
    if not tools and (tools is None or isinstance(tools, list)):
        return None
    entries = cast(list[Any], tools) if isinstance(tools, list) else [tools]
    for i, entry in enumerate(entries):
        if not isinstance(tools, list) or not _is_schema(entry):
            raise Unusable(
                "bad_tools",
                f"tools[{i}]",
                f"found {found(entry)}, expected a list of function schemas like "
                '{"type": "function", "function": {"name": ..., "parameters": {...}}}',
            )
    text = orjson.dumps(tools)
    return (orjson.dumps(schema_without_nulls(tools)) if b"null" in text else text).decode()


def _is_schema(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    schema = cast(dict[str, Any], entry)
    function = schema.get("function")
    function = schema if function is None else function
    return isinstance(function, dict) and isinstance(
        cast(dict[str, Any], function).get("name"), str
    )


def images_of(value: Any) -> str | None:
    """JSON text of the images, in a list; None where there are none.

    `value`: a path, a URL or an object that names one; or a list of these, or its JSON text.

    Raises:
        Unusable: bad_images.
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        value = _parsed(value, "bad_images", "images", "a list of images")
    if value is None or value == [] or value == "":
        return None
    images = cast(list[Any], value) if isinstance(value, list) else [value]
    for i, image in enumerate(images):
        places = cast(dict[str, Any], image).values() if isinstance(image, dict) else [image]
        if not any(isinstance(each, str) and each for each in places):
            raise Unusable(
                "bad_images",
                f"images[{i}]",
                f'found {found(image)}, expected a path, a URL or an object like {{"path": ...}}',
            )
    return orjson.dumps(images).decode()


def template_kwargs_of(value: Any) -> str | None:
    """JSON text of the chat template's arguments; None where there are none.

    `value`: an object, or the JSON text of one.

    Raises:
        Unusable: bad_chat_template_kwargs.
    """
    field = "chat_template_kwargs"
    kwargs = _parsed(value, f"bad_{field}", field, "an object")
    if kwargs is None:
        return None
    if not isinstance(kwargs, dict):
        raise Unusable(
            f"bad_{field}", field, f'found {found(value)}, expected {{"name": value}} or null'
        )
    if names := sorted(RENDERING.intersection(cast(dict[str, Any], kwargs))):
        raise Unusable(
            f"bad_{field}",
            f"{field}.{names[0]}",
            f"found {names[0]!r}, which is for whoever renders to say, expected variables of the "
            "chat template such as enable_thinking; leave it out",
        )
    return orjson.dumps(kwargs).decode() if kwargs else None


def _parsed(value: Any, reason: str, field: str, expected: str) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json_value(value)
    except orjson.JSONDecodeError as error:
        raise Unusable(
            reason,
            field,
            f"found {found(value)}, which is no JSON ({error}), expected {expected}, as a value or "
            "as JSON text",
        ) from None
