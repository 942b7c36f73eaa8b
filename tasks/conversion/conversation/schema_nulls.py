"""Schemas of tools without the keys that are null, which say nothing there.

    "properties": {"days": {"type": "integer"}, "city": null}  ->  "properties": {"days": ...}

A table gives each tool the keys of all others, and null in them (nulls.py). What a schema states as
a value, a default among them, may be null, and stays. Travels inside the registered model: it may
import only modules that travel with it.
"""

from typing import Any, cast

_VALUES = ("default", "const")
"""Keywords of a schema that are followed by a value, which may be null."""
_LISTS = ("enum", "examples")
"""And by a list of them."""
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""And by schemas under any names, those of keywords among them."""


def schema_without_nulls(value: Any, *, named: bool = False) -> Any:
    """Tools, or a schema, without keys that are null; values that a schema states stay as they are.

    `named`: the keys are names of schemas, not keywords.
    """
    if isinstance(value, list):
        return [schema_without_nulls(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for key, each in cast(dict[str, Any], value).items():
        if not named and (key in _VALUES or (key in _LISTS and each is not None)):
            kept[key] = each
        elif each is not None:
            kept[key] = schema_without_nulls(each, named=not named and key in _NAMED)
    return kept
