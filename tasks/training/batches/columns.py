"""Whole columns of a data set as arrays: numbers, and the token ids of many rows at a time.

Legend: N rows of the data set, n rows that are read at a time.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from tasks.errors import DataError
from tasks.tokenization.shards import IDS

ROWS_AT_ONCE = 4096
Integers = npt.NDArray[np.int64]
Side = tuple[Integers, npt.NDArray[Any]]
"""One side of n rows: their lengths `[n]`, and all of their ids one behind the other."""


def numbers(rows: Dataset, field: str, absent: float, name: str) -> npt.NDArray[np.float64]:
    """A column, `[N]`, with `absent` in place of a null or of a column that is not there.

    Raises:
        DataError: the column does not hold numbers; `name` says which data set.
    """
    if field not in rows.column_names:
        return np.full(len(rows), absent)
    table: Any = rows.select_columns([field]).with_format("arrow")[:]
    try:
        return pc.cast(table[field], pa.float64()).fill_null(absent).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"the {name} dataset: {field} is {table[field].type}; expected numbers"
        ) from error


def as_number(value: Any) -> float:
    """The value as a number; NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def sequences(rows: Dataset, name: str) -> Iterator[tuple[int, tuple[Side, Side]]]:
    """For n rows at a time: the place of the first, and the chosen and the rejected `Side`.

    A row that is null has length 0, and an id that is null is -1. Both sides are read at once, as
    seeking rows is what takes the time in a shuffled data set.

    Raises:
        DataError: a column does not hold lists of whole numbers.
    """
    start = 0
    for table in id_tables(rows):
        chosen, rejected = (_side(table[side].combine_chunks(), side, name) for side in IDS)
        yield start, (chosen, rejected)
        start += table.num_rows


def longest_sides(rows: Dataset) -> Integers:
    """Tokens of the longer side of every row, int64 `[N]`."""
    longest: list[Integers] = []
    for table in id_tables(rows):
        sides = [table[side].combine_chunks().value_lengths().to_numpy() for side in IDS]
        longest.append(np.maximum(*sides).astype(np.int64))
    return np.concatenate(longest) if longest else np.empty(0, np.int64)


def id_tables(rows: Dataset) -> Iterator[Any]:
    """Both columns of ids as Arrow tables of at most `ROWS_AT_ONCE` rows."""
    yield from rows.select_columns(list(IDS)).with_format("arrow").iter(ROWS_AT_ONCE)


def _side(lists: Any, side: str, name: str) -> Side:
    try:
        ids = lists.flatten()
        if ids.null_count or not pa.types.is_integer(ids.type):
            ids = pc.cast(ids, pa.int64()).fill_null(-1)
    except (AttributeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"the {name} dataset: {side} is {lists.type}; expected lists of token ids, whole "
            "numbers"
        ) from error
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64), ids.to_numpy(zero_copy_only=False)


def owner(lengths: Integers, at: int) -> int:
    """Number of the sequence that the id at place `at` of a `Side` belongs to."""
    return int(np.searchsorted(lengths.cumsum(), at, side="right"))
