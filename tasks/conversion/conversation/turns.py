"""Turns under other key names, brought to `role` and `content`; what is none is left as it is.

    {"from": "human", "value": "Hi"}    ->  [{"role": "human", "content": "Hi"}]
    [{"from": "gpt", "content": "Ho"}]  ->  [{"role": "gpt", "content": "Ho"}]

The roles themselves are mapped by the check that every message passes.
"""

from typing import Any, cast

import orjson

from tasks.conversion.conversation.json_text import json_value
from tasks.conversion.unusable import Unusable, found, not_as_expected

_NAMES = {"from": "role", "value": "content"}


def as_messages(value: Any) -> Any:
    """A turn, or a list of turns, as messages; text and everything else as it is."""
    turn = isinstance(value, dict) and ("role" in value or "from" in value)
    turns = [value] if turn else value
    return [*map(_message, turns)] if isinstance(turns, list) else turns


def _message(turn: Any) -> Any:
    if not isinstance(turn, dict) or "from" not in turn or "role" in turn:
        return turn
    message = cast(dict[str, Any], turn)
    names = _NAMES if "content" not in message else {"from": "role"}
    return {names.get(key, key): value for key, value in message.items()}


def listed(value: Any, field: str, expected: str = "a list") -> list[Any]:
    """A list, or the list that a text holds as JSON (a CSV cell).

    Raises:
        Unusable: null, bad_json, wrong_type.
    """
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
        raise not_as_expected(value, field, expected)
    return cast(list[Any], value)
