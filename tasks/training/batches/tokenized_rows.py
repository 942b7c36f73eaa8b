"""Rows that a script has tokenized itself, checked as conversion and tokenization check theirs.

    {"chosen_input_ids": [5, 6], "rejected_input_ids": [7], "preference": 0.25}
        ->  {"chosen_input_ids": [7], "rejected_input_ids": [5, 6], "preference": 0.75}

An error names the row and the field that cannot be trained on. Whole columns are checked at once,
the rows of a stream as they come. Data of the tokenization stage have been checked there.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from datasets import Dataset, IterableDataset, concatenate_datasets

from tasks.conversion.preference.fields import TOO_LARGE
from tasks.conversion.preference.pair import TIE
from tasks.errors import DataError, shown
from tasks.tokenization.shards import IDS
from tasks.training.batches.columns import Integers, as_number, numbers, owner, sequences
from tasks.training.batches.unusable_rows import usable_rows

logger = logging.getLogger(__name__)

Rows = TypeVar("Rows", Dataset, IterableDataset)

NUMBERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "preference": (
        lambda value: (value >= 0) & (value <= 1),
        "a number from 0 to 1: how likely the chosen side is the better one",
    ),
    "weight": (
        lambda value: (value > 0) & (value < np.inf),
        "a finite number above 0; leave out a row that is not to count",
    ),
    "margin": (
        lambda value: abs(value) < TOO_LARGE,
        "a finite number below 2^63, or null where there is none",
    ),
}
"""Columns of numbers: which values can be used, and the words for it in an error."""
EXPECTED_IDS = "at least one token id, a whole number of 0 or more"


def checked_rows(rows: Rows, name: str) -> Rows:
    """The rows, with the better side as chosen; training rows with two equal sides are left out.

    An evaluation keeps those, and counts them among its equal rewards. A row whose `pair_id` is
    absent or null gets its number as one: `row 7`.

    Raises:
        DataError: a number or a sequence cannot be trained on, or no row is left.
    """
    if isinstance(rows, IterableDataset):
        checked = rows.map(partial(_checked_row, name=name), with_indices=True)
        return usable_rows(checked, _equal) if name == "train" else checked
    rows = _named(rows)
    for field, (fits, expected) in NUMBERS.items():
        values = numbers(rows, field, 1.0, name)
        places = np.flatnonzero(~fits(values))
        if len(places):
            value = shown(float(values[places[0]]))
            expected += f" ({len(places)} of {len(rows)} rows have another)"
            raise _invalid(rows[int(places[0])], places[0], field, value, expected, name)
    equal = _equal_sides(rows, name)
    rows = _better_one_chosen(rows, name)
    return _without(rows, equal, name) if len(equal) else rows


def _named(rows: Dataset) -> Dataset:
    """The rows, each with a `pair_id`."""
    ids: list[Any] = [None] * len(rows)
    if "pair_id" in rows.column_names:
        table: Any = rows.select_columns(["pair_id"]).with_format("arrow")[:]
        if not table["pair_id"].null_count:
            return rows
        ids = table["pair_id"].to_pylist()
        rows = rows.remove_columns("pair_id")
    named = [f"row {n}" if given is None else str(given) for n, given in enumerate(ids)]
    return rows.add_column("pair_id", named)  # pyright: ignore[reportCallIssue]


def _without(rows: Dataset, equal: Integers, name: str) -> Dataset:
    """The rows but those with equal sides, which only an evaluation keeps; both are logged."""
    reason = f"row {equal[0]} has the same token ids on both sides"
    if name != "train":
        logger.warning("%s: %d of %d pairs are no pairs: %s", name, len(equal), len(rows), reason)
        return rows
    text = f"{name}: {len(equal)} of {len(rows)} rows are not used: identical_tokens {len(equal)}"
    if len(equal) == len(rows):
        raise DataError(f"{text}. No row is left: {reason}")
    logger.warning("%s (%s)", text, reason)
    return rows.select(np.setdiff1d(np.arange(len(rows)), equal))


def _checked_row(row: dict[str, Any], index: int, name: str) -> dict[str, Any]:
    """As `checked_rows` for one row of a stream; equal sides are left to `_equal`."""
    if row.get("pair_id") is None:
        row = {**row, "pair_id": f"row {index}"}
    for field, (fits, expected) in NUMBERS.items():
        value = row.get(field)
        if value is not None and not fits(as_number(value)):
            raise _invalid(row, index, field, shown(value), expected, name)
    for side in IDS:
        ids = np.asarray(() if row[side] is None else row[side])
        kind = ids.dtype.kind
        whole = kind in "iu" or (kind == "f" and all(float(i).is_integer() for i in ids))
        if ids.size == 0 or not whole or ids.min() < 0:
            raise _invalid(row, index, side, shown(row[side]), EXPECTED_IDS, name)
    if row.get("preference") is None or float(row["preference"]) >= TIE:
        return row
    chosen, rejected = IDS
    swapped = {chosen: row[rejected], rejected: row[chosen]}
    return {**row, **swapped, "preference": 1 - float(row["preference"])}


def _equal(chosen: Sequence[int], rejected: Sequence[int]) -> str:
    same = np.array_equal(chosen, rejected)
    return "identical_tokens: found the same token ids on both sides" if same else ""


def _equal_sides(rows: Dataset, name: str) -> Integers:
    """Places of the rows with the same ids on both sides, int64 `[S]`.

    Raises:
        DataError: a side is empty, or has ids below 0 or none at all.
    """
    equal: list[int] = []
    for start, sides in sequences(rows, name):
        for side, (lengths, ids) in zip(IDS, sides, strict=True):
            if lengths.min() == 0 or ids.min() < 0:
                empty = lengths.min() == 0
                place = int(lengths.argmin()) if empty else owner(lengths, int(ids.argmin()))
                row = rows[start + place]
                raise _invalid(row, start + place, side, shown(row[side]), EXPECTED_IDS, name)
        (lengths, left), (others, right) = sides
        places = np.flatnonzero(lengths == others)
        ends, other_ends = lengths.cumsum(), others.cumsum()
        for divisor in (1, 2, 4):  # three ids of each rule out most of the full comparisons
            back = 1 + (lengths[places] - 1) // divisor
            places = places[left[ends[places] - back] == right[other_ends[places] - back]]
        for place in places.tolist():
            length, end, other_end = lengths[place], ends[place], other_ends[place]
            if np.array_equal(left[end - length : end], right[other_end - length : other_end]):
                equal.append(start + place)
    return np.asarray(equal, np.int64)


def _better_one_chosen(rows: Dataset, name: str) -> Dataset:
    """The rows, with swapped sides where `preference` is below 0.5; no id is copied."""
    preference = numbers(rows, "preference", 1.0, name)
    places = np.flatnonzero(preference < TIE)
    if len(places) == 0:
        return rows
    logger.info(
        "%s: %d rows with a preference below 0.5 have their sides swapped", name, len(places)
    )
    sure = np.maximum(preference, 1 - preference)
    rows = rows.remove_columns("preference").add_column("preference", sure)  # pyright: ignore[reportCallIssue]
    swapped = rows.rename_columns(dict(zip(IDS, reversed(IDS), strict=True)))
    order = np.arange(len(rows))
    order[places] += len(rows)
    return concatenate_datasets([rows, swapped.select_columns(rows.column_names)]).select(order)


def _invalid(
    row: Mapping[str, Any], number: int, field: str, value: str, expected: str, name: str
) -> DataError:
    pair_id = str(row["pair_id"])
    named = pair_id if pair_id.startswith("row ") else f"row {number} ({shown(pair_id)})"
    return DataError(f"the {name} dataset's {named}: {field} is {value}; expected {expected}")
