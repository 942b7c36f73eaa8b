"""The rows that a script gives to a trainer, a data set or a list, as a data set."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
from datasets import Dataset, IterableDataset, Value

from tasks.errors import DataError, shown


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
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        column, number, first, other = _unlike(columns)
        raise DataError(
            f"the {name} dataset's row {number}: {column} is {other}, but {first} in the rows "
            "before it; all rows of a list have one format: give the kinds as lists of their own"
        ) from error


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


def _unlike(columns: Mapping[str, list[Any]]) -> tuple[str, int, str, str]:
    """The first value that differs in type from its column's first: column, row and both types."""
    for column, values in columns.items():
        kinds = [(n, type(v).__name__) for n, v in enumerate(values) if v is not None]
        for number, kind in kinds:
            if kind != kinds[0][1]:
                return column, number, kinds[0][1], kind
    return "a value", 0, "of another kind", "nested otherwise"
