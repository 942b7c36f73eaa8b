"""The rows that a script gives to a trainer, a data set or a list, as a data set."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
from datasets import Dataset, IterableDataset, Value

from tasks.errors import DataError, shown

UNLIKE = (pa.ArrowInvalid, pa.ArrowTypeError)
"""What Arrow raises for a column of several kinds."""


def as_dataset(rows: Any, name: str) -> Dataset | IterableDataset:
    """The rows as a data set that yields plain Python values, whatever `set_format` asks for.

    `rows` is a data set, or a list of mappings from column to value, in which a missing column is
    null.

    Raises:
        DataError: `rows` is something else, or a column holds values of different types.
    """
    if isinstance(rows, Dataset | IterableDataset):
        return _of_plain_values(rows)
    if isinstance(rows, str | bytes) or not isinstance(rows, Sequence):
        raise DataError(
            f"the {name} dataset is {shown(type(rows).__name__)}; expected a Dataset or "
            "IterableDataset of the package datasets, or a list of rows; a file is read with "
            "datasets.load_dataset"
        )
    listed = cast(Sequence[Any], rows)
    columns: dict[str, list[Any]] = {}
    for number, row in enumerate(listed):
        if not isinstance(row, Mapping):
            raise DataError(
                f"the {name} dataset's row {number} is {shown(row)}; expected a mapping from "
                "column to value"
            )
        for column in cast(Mapping[str, Any], row):
            columns.setdefault(column, [None] * len(listed))
    for column, values in columns.items():
        values[:] = [cast(Mapping[str, Any], row).get(column) for row in listed]
    try:
        return Dataset.from_dict(columns)
    except UNLIKE as error:
        raise DataError(f"the {name} dataset's {_unlike(columns)}") from error


def formats_of(rows: Any) -> tuple[str, ...]:
    """The format of raw rows, `standard` (text) or `conversational`; empty for token ids and for a
    stream that does not declare its columns."""
    if isinstance(rows, Dataset | IterableDataset):
        chosen: Any = (rows.features or {}).get("chosen")
    else:
        chosen = rows[0].get("chosen") if rows else None
    if chosen is None:
        return ()
    return ("standard",) if isinstance(chosen, str | Value) else ("conversational",)


def _of_plain_values(rows: Dataset | IterableDataset) -> Dataset | IterableDataset:
    """The rows without a format of tensors or tables; a transform (`set_transform`) is kept."""
    if isinstance(rows, IterableDataset):
        formatting: Any = rows._formatting  # pyright: ignore[reportPrivateUsage]
        return rows.with_format(None) if formatting and formatting.format_type else rows
    own: Any = rows.format
    if own["type"] in (None, "custom"):
        return rows
    return rows.with_format(None).select_columns(own["columns"])


def _unlike(columns: Mapping[str, list[Any]]) -> str:
    """The first value that its column cannot hold beside those before it, and what to do."""
    places = ((name, _first_unlike(values), values) for name, values in columns.items())
    column, number, values = next(found for found in places if found[1] < len(found[2]))
    kinds = [type(value).__name__ for value in values[: number + 1] if value is not None]
    if kinds[-1] != kinds[0]:
        return (
            f"row {number}: {column} is {kinds[-1]}, but {kinds[0]} in the rows before it; all "
            "rows of a list have one format: give the kinds as lists of their own"
        )
    return (
        f"row {number}: {column} holds values of several kinds in one place, within the row or "
        "beside those before it; write what differs (tools, a call's arguments) as JSON text"
    )


def _first_unlike(values: list[Any]) -> int:
    """The place of the first value that makes a column of no single kind; their number if none."""

    def fails(place: int) -> bool:
        try:
            Dataset.from_dict({"": values[: place + 1]})
        except UNLIKE:
            return True
        return False

    return bisect_left(range(len(values)), True, key=fails)
