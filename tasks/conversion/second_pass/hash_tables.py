"""Fast filters over many hashes: which may occur twice, or among others, and which do not.

    hashes       a7f3  02c1  99b1  51c8  02c1
    low bits        3     1     1     8     1
    table        1: the last row that came here    3: row 0    8: row 3

Rows 0 and 3 have a slot of their own, so they equal no other row; the caller compares the rest
exactly. To sort all rows takes ten times as long. The low bits of hashes are spread evenly; if they
were not, results would still be right, only slower.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
PLACES = 16
"""Slots of a table for each value in it."""
MOST_PLACES = 2**24


def may_repeat(values: Array) -> Array:
    """A mask of the values that may occur more than once: all that do, and a few others."""
    rows = np.arange(len(values), dtype=np.int32 if len(values) < 2**31 else np.int64)
    slots = _slots(values, values)
    table = np.empty(_size(values), rows.dtype)
    table[slots] = rows
    last = table[slots]
    others = np.flatnonzero(last != rows)
    found = np.zeros(len(values), bool)
    found[others] = True
    found[last[others]] = True
    return found


def may_be_in(values: Array, others: Array) -> Array:
    """A mask of the values that may be among the others: all that are, and a few others."""
    held = np.zeros(_size(others), bool)
    held[_slots(others, others)] = True
    return held[_slots(values, others)]


def distinct(values: Array) -> Array:
    """Each value once, in any order."""
    some = may_repeat(values)
    return np.concatenate([values[~some], sorted_set(values[some])])


def in_both(one: Array, other: Array) -> Array:
    """The values that are in both, each once, sorted."""
    one = one[may_be_in(one, other)]
    return np.intersect1d(one, other[may_be_in(other, one)])


def sorted_set(values: Array) -> Array:
    """As `numpy.unique`, by sorting: several times as fast for integers that nearly all differ."""
    ordered = np.sort(values)
    return ordered[changes(ordered)] if len(ordered) else ordered


def changes(values: Array) -> Array:
    """Where a sorted array's value differs from the one before; true at the first."""
    changed = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def _size(held: Array) -> int:
    return min(MOST_PLACES, 2 ** (PLACES * len(held)).bit_length())


def _slots(values: Array, held: Array) -> Array:
    return (values & values.dtype.type(_size(held) - 1)).astype(np.intp)
