"""Pass 2: which pairs repeat or contradict others, over all shards.

In:  the `KEYS` arrays of all shards, in row order.
Out: one byte per pair (`KEEP`, `DUPLICATE`, `ALIKE`, `CONTRADICTION`), and the leakage check.

Sorted arrays rather than sets: at the peak about 40 bytes a pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tasks.conversion.shard_records import field_of
from tasks.errors import ArtifactError

CODES = range(4)
KEEP, DUPLICATE, ALIKE, CONTRADICTION = CODES
"""Verdicts: first of its kind; equal to an earlier pair; equal after normalisation; in the data
both ways round."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Verdicts:
    """The verdict of every pair, in row order; what becomes of it, `selection.applied` says."""

    codes: Array
    other_margin: int
    """Duplicates whose margin is not that of the pair that is kept."""


def judge(shards: Sequence[Array], contradictions: Literal["drop", "keep"] = "drop") -> Verdicts:
    """The verdict of every pair; of duplicates the first in row order is the one to keep.

    All pairs of a contradiction that is dropped are one, duplicates among them included: that
    verdict does not depend on the order of rows. Of one that is kept, the first pair of each side
    is; those that repeat it are duplicates.
    """
    high, low = field_of(shards, "high"), field_of(shards, "low")
    order = _order(high, low)
    high, low = high[order], low[order]
    starts_key = _changes(high)
    del high
    starts_side = starts_key | _changes(low)
    starts_key |= _changes(low >> np.uint64(1))
    del low
    codes = np.zeros(len(order), np.uint8)
    leader = np.maximum.accumulate(np.where(starts_side, np.arange(len(order)), 0))
    repeats = ~starts_side
    codes[order[repeats & _same(shards, "exact", order, leader)]] = DUPLICATE
    codes[order[repeats & (codes[order] == KEEP)]] = ALIKE
    other_margin = int((repeats & ~_same(shards, "margin", order, leader)).sum())
    both_ways = _both_ways(starts_key, starts_side)
    if contradictions == "keep":
        both_ways &= starts_side
    codes[order[both_ways]] = CONTRADICTION
    return Verdicts(codes, other_margin)


def _order(high: Array, low: Array) -> Array:
    """The order by `high`, then `low`, then row, as `numpy.lexsort` gives it: several times as
    fast where nearly all of `high` differ."""
    order = np.argsort(high)
    ordered = high[order]
    equal = ordered[1:] == ordered[:-1]
    places = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    del ordered, equal
    if len(places) > len(order) // 4:
        del order, places
        return np.lexsort((low, high))
    rows = np.sort(order[places])
    order[places] = rows[np.lexsort((low[rows], high[rows]))]
    return order


def check_no_leakage(groups: Array, held_out: Array) -> tuple[int, int]:
    """How many groups are in train and in eval.

    Raises:
        ArtifactError: a group is in both; impossible by construction, so a defect.
    """
    train, evaluation = sorted_set(groups[~held_out]), sorted_set(groups[held_out])
    shared = evaluation[:0]
    if len(train):
        places = np.minimum(np.searchsorted(train, evaluation), len(train) - 1)
        shared = evaluation[train[places] == evaluation]
    if len(shared):
        raise ArtifactError(
            f"{len(shared)} prompt groups are in train and in eval, the first {int(shared[0]):016x}"
            "; the split is a function of the group, so this is a defect: please report it"
        )
    return len(train), len(evaluation)


def sorted_set(values: Array) -> Array:
    """`numpy.unique` of integers that nearly all differ, by sorting: several times as fast."""
    ordered = np.sort(values)
    return ordered[_changes(ordered)] if len(ordered) else ordered


def _changes(values: Array) -> Array:
    """Where a sorted array's value differs from the one before; true at the first."""
    changed = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def _same(shards: Sequence[Array], name: str, order: Array, leader: Array) -> Array:
    """Whether a field, in sorted order, equals that of the first pair of its kind."""
    values = field_of(shards, name)[order]
    return values == values[leader]


def _both_ways(starts_key: Array, starts_side: Array) -> Array:
    """Which sorted pairs belong to a key that occurs with either side chosen."""
    starts = np.flatnonzero(starts_key)
    if not len(starts):
        return np.zeros(0, bool)
    both = np.logical_or.reduceat(starts_side & ~starts_key, starts)
    sizes = np.diff(starts, append=len(starts_key))
    return np.repeat(both, sizes)
