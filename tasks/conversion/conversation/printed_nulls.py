"""Keys that are null, left out of what templates print: of tools, of calls' arguments, of settings.

    {"arguments": {"days": 3, "city": null}}  ->  {"arguments": {"days": 3}}

Which nulls are to go is the caller's to say (nulls.py). Travels inside the registered model: it may
import only modules that travel with it.
"""

from collections.abc import Sequence
from typing import Any, cast

PRINTED = ("tools", "arguments", "chat_template_kwargs")
"""What templates print, or ask for by name: tools, what calls hand them, variables."""


def without_printed_nulls(value: Any, printed: Sequence[str] = PRINTED) -> Any:
    """The value without the keys that are null below those of `printed`, wherever these stand."""
    if isinstance(value, list):
        return [without_printed_nulls(each, printed) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    return {
        key: without_nulls(each) if key in printed else without_printed_nulls(each, printed)
        for key, each in cast(dict[str, Any], value).items()
    }


def without_nulls(value: Any) -> Any:
    """The value without keys that are null, at any depth."""
    if isinstance(value, list):
        return [without_nulls(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    entries = cast(dict[str, Any], value).items()
    return {key: without_nulls(each) for key, each in entries if each is not None}
