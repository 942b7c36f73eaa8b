"""Turns under other key names, brought to `role` and `content`; what is none is left as it is.

    {"from": "human", "value": "Hi"}    ->  [{"role": "human", "content": "Hi"}]
    [{"from": "gpt", "content": "Ho"}]  ->  [{"role": "gpt", "content": "Ho"}]
    [{"content": "Ho", "role": "user"}] ->  [{"role": "user", "content": "Ho"}]

The roles themselves are mapped by the check that every message passes.
"""

from typing import Any, cast

import orjson

from tasks.conversion.json_text import json_value
from tasks.conversion.unusable import Unusable, found

_NAMES = {"from": "role", "value": "content"}


def as_messages(value: Any) -> Any:
    """A turn, or a list of turns, as messages; text and everything else as it is."""
    if isinstance(value, dict):
        return [_message(value)]
    if isinstance(value, list):
        return [_message(turn) for turn in cast(list[Any], value)]
    return value


def _message(turn: Any) -> Any:
    if not isinstance(turn, dict):
        return turn
    message = cast(dict[str, Any], turn)
    if "from" in message and "role" not in message:
        names = _NAMES if "content" not in message else {"from": "role"}
        message = {names.get(key, key): value for key, value in message.items()}
    # In one order, whatever that of the file: the pair's id is over the bytes.
    first = {key: message[key] for key in ("role", "content") if key in message}
    return first | message


def listed(value: Any, field: str, expected: str = "a list") -> list[Any]:
    """A list, or the list that a text holds as JSON (a CSV cell).

    Raises:
        Unusable: null, bad_json, wrong_type.
    """
    if value is None:
        raise Unusable("null", field, f"found null, expected {expected}; drop the row or fill it")
    if isinstance(value, str):
        try:
            value = json_value(value)
        except orjson.JSONDecodeError as error:
            raise Unusable(
                "bad_json",
                field,
                f"found {found(value)}, which is no JSON ({error}), expected {expected}",
            ) from None
    if not isinstance(value, list):
        raise Unusable("wrong_type", field, f"found {found(value)}, expected {expected}")
    return cast(list[Any], value)
