"""Keys that are null only because another row, or another tool, has a value there.

A table of all rows has one type for each column: what a row leaves out is null in it.

    in JSONL    "properties": {"days": {"type": "integer"}}
    in Parquet  "properties": {"days": {"type": "integer"}, "city": null}   another tool has a city

Rows out of either are to give the same text. In a schema such a null says nothing, wherever the row
comes from (schema_nulls.py). Among the arguments of a call, and as a schema's default, it
may be meant: it is left out of rows of a table only (`unfilled`), for these cannot say that they
mean it. Entries of lists are never left out.
"""

from typing import Any, cast

from tasks.ingestion.formats.extensions import FORMATS, split_codec

_TABLES = tuple(ending for ending, kind in FORMATS.items() if kind in ("parquet", "arrow"))
PRINTED = ("tools", "arguments", "chat_template_kwargs")
"""What templates print, or ask for by name: tools, what calls hand them, variables."""


def unfilled(row: dict[str, Any], raw: str, file: str) -> dict[str, Any]:
    """The row; of a table's file, without the keys that are null in what is `PRINTED`."""
    if "null" not in raw or not split_codec(file)[0].endswith(_TABLES):
        return row
    return _unfilled(row)


def _unfilled(value: Any) -> Any:
    if isinstance(value, list):
        return [_unfilled(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    entries = cast(dict[str, Any], value).items()
    return {k: without_nulls(v) if k in PRINTED else _unfilled(v) for k, v in entries}


def without_nulls(value: Any) -> Any:
    """The value without keys that are null, at any depth."""
    if isinstance(value, list):
        return [without_nulls(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    entries = cast(dict[str, Any], value).items()
    return {key: without_nulls(each) for key, each in entries if each is not None}
