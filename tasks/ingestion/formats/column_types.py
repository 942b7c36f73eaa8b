"""The types of columns, and which of them JSON can represent.

timestamp, date, time, decimal -> text    map with text keys -> object    binary, duration -> none
arrow.json, the `Json` of the `datasets` library -> the value in its text
"""

import pyarrow as pa

from tasks.errors import DataError, shown
from tasks.ingestion.columns import TEXT, check_names
from tasks.ingestion.formats.batches import Origin


def check_types(origin: Origin, schema: pa.Schema) -> None:
    """Raises DataError if JSON cannot represent a column's type, or if two columns share a name."""
    check_names(origin.name, schema.names)
    for field in schema:
        _check_type(origin, field.name, field.type)


def _check_type(origin: Origin, name: str, kind: pa.DataType) -> None:
    """Raises DataError for a type without JSON form. Binary passes: a column of nulls is
    allowed."""
    is_ = pa.types
    if is_json(kind):
        return None
    if is_.is_dictionary(kind):
        return _check_type(origin, name, kind.value_type)
    if holds_json(kind) and not (
        is_.is_list(kind) or is_.is_large_list(kind) or is_.is_struct(kind)
    ):
        raise no_form(origin, name, kind)
    if is_.is_nested(kind) and not is_.is_union(kind):
        if is_.is_map(kind) and not (
            is_.is_string(kind.key_type) or is_.is_large_string(kind.key_type)
        ):
            raise no_form(origin, name, kind)
        for child, child_kind in children_of(kind):
            _check_type(origin, f"{name}.{child}", child_kind)
        return None
    known = (
        is_.is_null,
        is_.is_boolean,
        is_.is_integer,
        is_.is_floating,
        is_.is_string,
        is_.is_large_string,
        is_.is_string_view,
        is_.is_decimal,
        is_.is_timestamp,
        is_.is_date,
        is_.is_time,
        is_binary,
    )
    if not any(test(kind) for test in known):
        raise no_form(origin, name, kind)
    return None


def kind_of(kind: pa.DataType) -> str:
    """The type's name in messages: that of its JSON form."""
    is_ = pa.types
    if is_json(kind):
        return "JSON"
    if is_.is_dictionary(kind):
        return kind_of(kind.value_type)
    if is_.is_null(kind):
        return "null"
    if is_.is_boolean(kind):
        return "boolean"
    if is_.is_integer(kind) or is_.is_floating(kind):
        return "number"
    if is_.is_struct(kind) or is_.is_map(kind):
        return "object"
    return "list" if is_.is_nested(kind) else TEXT


def is_json(kind: pa.DataType) -> bool:
    """Whether the values are JSON text that stands for its value."""
    return isinstance(kind, pa.JsonType)


def holds_json(kind: pa.DataType) -> bool:
    """Whether the type, or one nested in it, is JSON text."""
    below = children_of(kind) if pa.types.is_nested(kind) else []
    return is_json(kind) or any(holds_json(child) for _, child in below)


def is_binary(kind: pa.DataType) -> bool:
    """Whether the values are bytes."""
    is_ = pa.types
    tests = (is_.is_binary, is_.is_large_binary, is_.is_fixed_size_binary, is_.is_binary_view)
    return any(test(kind) for test in tests)


def no_form(origin: Origin, name: str, kind: pa.DataType) -> DataError:
    """The error of a column that JSON cannot represent."""
    return DataError(
        f"{origin.name}: column {shown(name)} is of type {kind}, which JSON cannot represent; "
        "leave the column out, or write it as text (images: as their paths)"
    )


def children_of(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Name and type of each part of a nested type."""
    return [(kind.field(i).name, kind.field(i).type) for i in range(kind.num_fields)]
