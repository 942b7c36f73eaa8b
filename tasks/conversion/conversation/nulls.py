"""Keys that are null only because another row, or another tool, has a value there.

A table of all rows has one type for each column: what a row leaves out is null in it.

    in JSONL    "properties": {"days": {"type": "integer"}}
    in Parquet  "properties": {"days": {"type": "integer"}, "city": null}   another tool has a city

Rows out of either are to give the same text. In a schema such a null says nothing, wherever the row
comes from (schema_nulls.py). Among the arguments of a call, and as a schema's default, it
may be meant: it is left out of rows of a table only (`unfilled`), for these cannot say that they
mean it. Entries of lists are never left out.
"""

from typing import Any

from tasks.conversion.conversation.printed_nulls import without_printed_nulls
from tasks.ingestion.formats.extensions import FORMATS, split_codec

_TABLES = tuple(ending for ending, kind in FORMATS.items() if kind in ("parquet", "arrow"))


def unfilled(row: dict[str, Any], raw: str, file: str) -> dict[str, Any]:
    """The row; of a table's file, without the keys that are null in what templates print."""
    if "null" not in raw or not split_codec(file)[0].endswith(_TABLES):
        return row
    return without_printed_nulls(row)
