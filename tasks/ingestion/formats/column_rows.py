"""Rows of record batches as JSON object text; null stays null.

timestamp, date, time -> ISO 8601 text;  decimal -> text;  map with text keys -> object
NaN, Infinity, -Infinity -> {"number": "NaN"} ..., which later stages refuse as a number or text
arrow.json, the `Json` of the `datasets` library -> its JSON text, unchanged
bytes, durations and all else that JSON cannot represent -> an error that names the column
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from math import isfinite
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import shown
from tasks.ingestion.formats.batches import ROW_LIMIT_BYTES, BadRow, Batch, Fault, Origin, too_large
from tasks.ingestion.formats.column_types import (
    check_types,
    children_of,
    holds_json,
    is_binary,
    kind_of,
    no_form,
)
from tasks.ingestion.formats.column_values import row_as_object, rows_as_objects
from tasks.ingestion.formats.decompression import DamagedFile, cause
from tasks.ingestion.formats.json_bytes import dumped
from tasks.ingestion.formats.json_rows import MAX_DEPTH, diagnose, json_fault

BATCH_ROWS = 256
UNREADABLE = (ValueError, KeyError, OverflowError, TypeError, pa.ArrowException)
"""Raised for a value that has no Python or JSON form: bad UTF-8, a date beyond year 9999."""


def rows_of(
    origin: Origin, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[Batch]:
    """The rows of all batches, numbered from 1.

    Raises:
        DataError: JSON cannot represent a column, or two columns share a name.
        DamagedFile: a column name is not UTF-8.
    """
    try:
        check_types(origin, schema)
        origin.declare({field.name: kind_of(field.type) for field in schema})
    except UnicodeDecodeError as error:
        raise DamagedFile(
            f"{origin.name}: a column name is not UTF-8 ({shown(error.object[:40])}); fetch or "
            "write the file again"
        ) from error
    row = 1
    for large in batches:
        for start in range(0, large.num_rows, BATCH_ROWS):
            part = large.slice(start, BATCH_ROWS)
            yield _batch(origin, part, row)
            row += part.num_rows


def _batch(origin: Origin, part: pa.RecordBatch, first: int) -> Batch:
    batch = Batch(read=part.num_rows)
    leaves = [
        leaf
        for name, column in zip(part.schema.names, part.columns, strict=True)
        for leaf in _leaves(name, column)
    ]
    for name, leaf in leaves:
        if is_binary(leaf.type) and leaf.null_count < len(leaf):
            raise no_form(origin, name, leaf.type)
    finite = all(_is_finite(leaf) for _, leaf in leaves)
    has_json = any(holds_json(field.type) for field in part.schema)
    try:
        objects: list[dict[str, Any] | None] = [*rows_as_objects(part)]
    except UNREADABLE:
        objects = [None] * part.num_rows  # one of them is bad: each is read alone below
    for i, value in enumerate(objects):
        row = first + i
        try:
            if value is None:
                value = row_as_object(part.slice(i, 1))
            raw = dumped(value if finite else _finite(value), _text)
        except UNREADABLE as error:
            batch.bad.append(_unreadable(row, error))
            continue
        _add(batch, row, raw, json_fault(raw) if has_json else None)
    return batch


def _add(batch: Batch, row: int, raw: bytes, fault: Fault | None) -> None:
    if len(raw) > ROW_LIMIT_BYTES:
        batch.bad.append(too_large(row, len(raw), raw))
        return
    if fault is None and (b"\\u0000" in raw or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH):
        fault = diagnose(raw)
    if fault:
        batch.bad.append(BadRow(row, fault, raw))
        return
    batch.rows.append(row)
    batch.raws.append(raw)


def _unreadable(row: int, error: Exception) -> BadRow:
    if isinstance(error, UnicodeDecodeError):
        found = shown(error.object[error.start : error.start + 8])
        message = f"byte {error.start + 1} of a text is not UTF-8 ({found}); write it as UTF-8"
        return BadRow(row, Fault("bad_utf8", "", message), error.object)
    if isinstance(error, orjson.JSONDecodeError):
        message = f"{shown(error.doc, 40)} in a column of JSON is none ({cause(error)}); correct it"
        return BadRow(row, Fault("bad_json", "", message), error.doc.encode())
    return BadRow(row, Fault("no_json_form", "", f"{cause(error)}; write the value as text"), b"")


def _text(value: Any) -> str:
    """Text of values that orjson does not write: decimals, and timestamps finer than
    microseconds."""
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _leaves(name: str, column: Any) -> Iterator[tuple[str, Any]]:
    """Every array without children below a column, with its dotted name."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield from _leaves(name, column.dictionary)
    elif pa.types.is_struct(kind):
        for (child, _), part in zip(children_of(kind), column.flatten(), strict=True):
            yield from _leaves(f"{name}.{child}", part)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{name}.value", column.items)
    elif pa.types.is_nested(kind):
        yield from _leaves(name, column.flatten())
    else:
        yield name, column


def _is_finite(leaf: Any) -> bool:
    if not pa.types.is_floating(leaf.type):
        return True
    return pc.call_function("all", [pc.call_function("is_finite", [leaf])]).as_py() is not False


def _finite(value: Any) -> Any:
    """The value with objects in place of NaN and infinities."""
    if isinstance(value, float):
        return value if isfinite(value) else {"number": json.dumps(value)}
    if isinstance(value, dict):
        return {key: _finite(child) for key, child in value.items()}
    return [_finite(child) for child in value] if isinstance(value, list) else value
