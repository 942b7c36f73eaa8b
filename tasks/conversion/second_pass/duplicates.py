"""Pass 2: which pairs repeat or contradict others, over all shards.

In:  the `KEYS` arrays of all shards, in row order.
Out: one byte per pair (`KEEP`, `DUPLICATE`, `ALIKE`, `CONTRADICTION` ...); and a check that no
     prompt group is in both splits.

Most pairs are unique, which a hash table shows quickly (`hash_tables`); only the rest is sorted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.conversion.first_pass.shard_records import field_of
from tasks.conversion.params import Contradictions
from tasks.conversion.preference.pair import TIE
from tasks.conversion.second_pass.hash_tables import changes, distinct, in_both, may_repeat
from tasks.errors import ArtifactError

CODES = range(8)
KEEP, DUPLICATE, ALIKE, CONTRADICTION, ELSEWHERE, EXCLUDED, OUTVOTED, JOINED = CODES
"""Verdicts: first of its kind; equal to an earlier pair; equal after normalisation; in the data
both ways round; of a prompt that another source holds out; of one that a source excludes; more
rows say the opposite; counted in the preference of the pair that is kept."""

Array = npt.NDArray[Any]

NONE_DECIDED: Array = np.empty((0, 2), np.uint64)


@dataclass(frozen=True)
class Verdicts:
    """The verdict of every pair, in row order; `selection.applied` says what becomes of it."""

    codes: Array
    other_margin: int
    """Duplicates with another margin or preference than the pair that is kept."""
    preferences: Array | None = None
    """Float64, one per pair: that of a pair which stands for others, too; elsewhere NaN. None: no
    pair does."""


def judge(
    shards: Sequence[Array],
    contradictions: Contradictions = "drop",
    decided: Array = NONE_DECIDED,
    apart: Array | None = None,
) -> Verdicts:
    """The verdict of every pair; of duplicates the first in row order is the one to keep.

    `decided`: keys `[N, 2]` that pairs had before a person overrode them. A pair that still has
    such a key is a near copy of an overridden one with the label that was rejected: it is dropped.
    `apart`: verdicts that were found before (`uses`). Pairs that these drop are not compared with
    others.

    Pairs that say the opposite of each other get their verdict by `contradictions`:

        drop       all of them, duplicates included, are `CONTRADICTION`, whatever their order
        keep       the first pair of each side is `CONTRADICTION`, its repetitions are duplicates
        majority   the side with fewer pairs is `OUTVOTED`; of the other the first is kept; where
                   both have equally many, as in drop
        soft       the first pair of the preferred side is kept, with the mean preference for it
                   over all of them, which are `JOINED`; a mean of one half: as in drop
    """
    high, low = field_of(shards, "high"), field_of(shards, "low")
    codes = np.full(len(high), KEEP, np.uint8) if apart is None else apart.copy()
    settled = _with_keys(high, low, decided)
    codes[settled] = np.where(codes[settled] == KEEP, ALIKE, codes[settled])
    pairs = _sorted_repeats(high, low, codes == KEEP)
    repeats = ~pairs.starts_side
    found = np.full(len(pairs.rows), KEEP, np.uint8)
    found[repeats] = ALIKE
    found[repeats & _as_leader(shards, "exact", pairs)] = DUPLICATE
    other_margin = int((repeats & ~_as_leader(shards, "margin", pairs)).sum())
    means = _contradict(found, shards, pairs, contradictions)
    codes[pairs.rows] = found
    preferences = None
    if means is not None:
        preferences = np.full(len(codes), np.nan)
        preferences[pairs.rows] = means
    return Verdicts(codes, other_margin, preferences)


def with_preferences(own: Array, preferences: Array) -> Array:
    """The pairs' own preferences, replaced by those of `Verdicts.preferences`."""
    return np.where(np.isnan(preferences), own, preferences)


def check_no_leakage(groups: Array, held_out: Array) -> tuple[int, int]:
    """How many groups are in train and in eval.

    Raises:
        ArtifactError: a group is in both; impossible by construction, so a defect.
    """
    train, evaluation = groups[~held_out], groups[held_out]
    shared = in_both(evaluation, train)
    if len(shared):
        raise ArtifactError(
            f"{len(shared)} prompt groups are in train and in eval, the first {int(shared[0]):016x}"
            "; the split is a function of the group, so this is a defect: please report it"
        )
    return len(distinct(train)), len(distinct(evaluation))


def _with_keys(high: Array, low: Array, keys: Array) -> Array:
    """The places of the pairs with one of these keys."""
    if not len(keys):
        return np.empty(0, np.int64)
    places = np.flatnonzero(np.isin(high, keys[:, 0]))
    wanted = {*map(tuple, keys.tolist())}
    found = zip(high[places].tolist(), low[places].tolist(), strict=True)
    return places[np.fromiter((key in wanted for key in found), np.bool_, len(places))]


@dataclass(frozen=True)
class _Sorted:
    """Pairs that may repeat or contradict others, M in all, copies of one pair side by side and in
    row order. The two ways round of a pair are its sides; they are neighbours."""

    rows: Array
    """Their places among all pairs."""
    starts_pair: Array
    """Bool `[M]`: the first of its pair, of either side."""
    starts_side: Array
    """Bool `[M]`: the first of its side."""
    leader: Array
    """`[M]`: where the first of each one's side stands."""


def _sorted_repeats(high: Array, low: Array, judged: Array) -> _Sorted:
    """The `judged` pairs that may repeat, by their keys: the last bit of `low` tells the side."""
    rows = np.flatnonzero(may_repeat(high) & judged)
    rows = rows[np.lexsort((low[rows], high[rows]))]
    high, low = high[rows], low[rows]
    starts_side = changes(high) | changes(low)
    return _Sorted(
        rows,
        starts_pair=changes(high) | changes(low >> np.uint64(1)),
        starts_side=starts_side,
        leader=np.maximum.accumulate(np.where(starts_side, np.arange(len(rows)), 0)),
    )


def _as_leader(shards: Sequence[Array], name: str, pairs: _Sorted) -> Array:
    """Whether a field of each one equals that of the first of its side."""
    values = field_of(shards, name)[pairs.rows]
    return values == values[pairs.leader]


def _contradict(
    found: Array, shards: Sequence[Array], pairs: _Sorted, contradictions: Contradictions
) -> Array | None:
    """Writes the verdicts of what is in the data both ways round into `found` `[M]`.

    Returns for `soft` the mean preference of each kept pair, float64 `[M]`, NaN for all others.
    """
    is_second = ~pairs.starts_pair[pairs.leader]
    copies = _sums(np.ones(len(found), np.int64), pairs)
    second = _sums(is_second.astype(np.int64), pairs)
    agreeing = np.where(is_second, second, copies - second)
    both_ways = agreeing < copies
    preferences = None
    if contradictions == "keep":
        both_ways &= pairs.starts_side
    elif contradictions == "majority":
        found[both_ways & (2 * agreeing < copies)] = OUTVOTED
        both_ways &= 2 * agreeing == copies
    elif contradictions == "soft" and both_ways.any():
        own = field_of(shards, "preference")[pairs.rows]
        for_second = _sums(np.where(is_second, own, 1 - own), pairs) / copies
        for_second = np.round(for_second, 12)  # no half is missed
        mean = np.where(is_second, for_second, 1 - for_second)
        found[both_ways] = JOINED
        kept = both_ways & pairs.starts_side & (mean > TIE)
        found[kept] = KEEP
        preferences = np.where(kept, mean, np.nan)
        both_ways &= mean == TIE
    found[both_ways] = CONTRADICTION
    return preferences


def _sums(values: Array, pairs: _Sorted) -> Array:
    """For each one: the sum of the values over all copies of its pair, either way round."""
    starts = np.flatnonzero(pairs.starts_pair)
    return np.repeat(np.add.reduceat(values, starts), np.diff(starts, append=len(values)))
