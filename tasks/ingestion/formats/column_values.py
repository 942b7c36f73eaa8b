"""A column's values as Python objects, nested ones assembled from their parts.

In:  an Arrow array.
Out: what its `to_pylist` gives (maps as objects), in a quarter of the time for lists of messages.
     This also reads the bytes behind a null, so it may raise where `to_pylist` does not. Values of
     arrow.json are inserted as they are.

    list<struct<role, content>>     offsets 0 2 3
                                    role    "user" "assistant" "user"    each part in one go,
                                    content "Hi"   "Ho"        "Hey"     then zipped and cut
"""

from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tasks.ingestion.formats.column_types import holds_json, is_json

Values = list[Any]
AT_ONCE_BYTES = 4 * 2**20
"""Texts up to this size are decoded in one go, which takes twice their memory."""


def rows_as_objects(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch as objects.

    Raises:
        ValueError, KeyError, OverflowError, TypeError, ArrowException: a value has no Python form.
    """
    columns = [values_of(column) for column in batch.columns]
    if not columns:
        return [{} for _ in range(batch.num_rows)]
    return _objects(batch.schema.names, columns)


def row_as_object(row: pa.RecordBatch) -> dict[str, Any]:
    """The same for a batch of one row. The bytes behind a null are not read, so this may succeed
    where `rows_as_objects` raises."""
    [row_object] = (
        rows_as_objects(row)
        if any(holds_json(field.type) for field in row.schema)
        else row.to_pylist(maps_as_pydicts="strict")
    )
    return row_object


def values_of(column: Any) -> Values:
    """The values of one column; raises as `rows_as_objects`."""
    is_, kind = pa.types, column.type
    if not len(column):
        return []
    if is_.is_list(kind) or is_.is_large_list(kind):
        return _lists(column)
    if is_.is_struct(kind) and kind.num_fields == len(set(kind.names)) > 0:
        parts = column.flatten()  # a part is null where the whole is
        return _with_nulls(column, _objects(kind.names, [values_of(part) for part in parts]))
    if is_json(kind):
        return [_json(text) for text in values_of(column.storage)]
    if is_.is_string(kind) or is_.is_large_string(kind):
        return _texts(column)
    return column.to_pylist(maps_as_pydicts="strict")


def _json(text: str | None) -> orjson.Fragment | None:
    """The text as a fragment that orjson inserts; raises JSONDecodeError if it is not one value."""
    if text is None:
        return None
    orjson.loads(text)
    return orjson.Fragment(text)


def _objects(names: list[str], columns: list[Values]) -> Values:
    if len(names) == 2:  # messages, of which there are the most
        a, b = names
        return [{a: x, b: y} for x, y in zip(*columns, strict=True)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _lists(column: Any) -> Values:
    ends, bounds = _ends(column)
    values = values_of(column.values.slice(bounds[0], bounds[-1] - bounds[0]))
    return _with_nulls(column, [values[a:b] for a, b in pairwise(ends)])


def _texts(column: Any) -> Values:
    ends, bounds = _ends(column)
    whole = memoryview(column.buffers()[2] or b"")[bounds[0] : bounds[-1]]
    if len(whole) <= AT_ONCE_BYTES and (ascii_ := bytes(whole)).isascii():
        text = ascii_.decode()
        return _with_nulls(column, [text[a:b] for a, b in pairwise(ends)])
    return _with_nulls(column, [str(whole[a:b], "utf-8") for a, b in pairwise(ends)])


def _ends(column: Any) -> tuple[list[int], list[int]]:
    """The bounds of the column's values: from its first one, and in the array or buffer that holds
    them."""
    large = pa.types.is_large_list(column.type) or pa.types.is_large_string(column.type)
    count = column.offset + len(column) + 1
    offsets = np.frombuffer(column.buffers()[1], np.int64 if large else np.int32, count)
    bounds = offsets[column.offset :]
    return (bounds - bounds[0]).tolist(), bounds.tolist()


def _with_nulls(column: Any, values: Values) -> Values:
    """The values with None for nulls. (`to_numpy` would import pandas, which takes longer than
    thousands of rows.)"""
    if column.null_count:
        for i, is_valid in enumerate(column.is_valid().to_pylist()):
            if not is_valid:
                values[i] = None
    return values
