"""Prompts held out that are nearly those trained on: how many, by the stretches that they share.

In:  of every shard the records of its pairs and its prompts' stretches (`stretches`), both made
     when the shard was; and what is kept.
Out: a rate, for the report.

Equal prompts are of one group and so of one split; what is found here differs in a few words: a
held-out prompt is nearly one trained on where half of its stretches stand in training prompts. A
prompt counts if a pair of its group is kept. Of many prompts held out, those with the smallest
group hashes are looked at; all that is trained on is gone through, shard by shard.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.conversion.duplicates import KEEP, sorted_set
from tasks.conversion.shard_records import hashes

Array = npt.NDArray[Any]
SHARED = 0.5
MOST_HELD_OUT = 20_000
_FILTER_SHARE = 64
"""Entries, for each hash that is wanted, of the table that rules out most others at a glance."""


def near_duplicates(shards: Sequence[Path], keys: Sequence[Array], codes: Array) -> dict[str, int]:
    """Held-out prompts looked at, and how many of them are nearly training prompts.

    `shards`, `keys`: the files of records, and the records; `codes`: the verdicts on all pairs as
    they are applied.
    """
    looked_at = _looked_at(keys, codes)
    found, owners = _held_out(shards, keys, codes, looked_at)
    wanted, places = np.unique(found, return_inverse=True)
    seen = _seen(wanted, _trained_on(shards, keys, codes)) if len(wanted) else found
    # Of every prompt each stretch once, however often it holds it.
    own = sorted_set(owners * len(wanted) + places)
    owner, each = np.divmod(own, max(1, len(wanted)))
    of_prompt = np.bincount(owner, minlength=len(looked_at))
    shared = np.bincount(owner[seen[each]], minlength=len(looked_at))
    alike = (of_prompt > 0) & (shared >= SHARED * of_prompt)
    return {"looked_at": int((of_prompt > 0).sum()), "near_duplicates": int(alike.sum())}


def _looked_at(keys: Sequence[Array], codes: Array) -> Array:
    """The groups of held-out prompts that are looked at, sorted."""
    groups: list[Array] = []
    for mine, kept in _shards(keys, codes):
        groups.append(mine["group"][kept & mine["eval"] & (mine["stretches"] > 0)])
    return sorted_set(np.concatenate(groups))[:MOST_HELD_OUT]


def _held_out(
    shards: Sequence[Path], keys: Sequence[Array], codes: Array, looked_at: Array
) -> tuple[Array, Array]:
    """Stretches of held-out prompts, and the number of each one's group among those looked at."""
    found: list[Array] = []
    owners: list[Array] = []
    for path, (mine, kept) in zip(shards, _shards(keys, codes), strict=True):
        own = np.flatnonzero(kept & mine["eval"] & (mine["stretches"] > 0))
        owner = np.searchsorted(looked_at, mine["group"][own])
        own, owner = own[owner < len(looked_at)], owner[owner < len(looked_at)]
        counts = mine["stretches"].astype(np.int64)
        mask = np.zeros(len(mine), bool)
        mask[own] = True
        found.append(hashes(path, mine)[np.repeat(mask, counts)])
        owners.append(np.repeat(owner, counts[own]))
    return np.concatenate(found), np.concatenate(owners)


def _trained_on(shards: Sequence[Path], keys: Sequence[Array], codes: Array) -> Iterator[Array]:
    for path, (mine, kept) in zip(shards, _shards(keys, codes), strict=True):
        yield hashes(path, mine)[np.repeat(kept & ~mine["eval"], mine["stretches"])]


def _shards(keys: Sequence[Array], codes: Array) -> Iterator[tuple[Array, Array]]:
    """Of every shard its records, and which of its pairs' prompts count: those of kept pairs, and
    those that only a pair that is dropped says the stretches of."""
    start = 0
    groups = np.zeros(0, np.uint64) if (codes == KEEP).all() else _kept_groups(keys, codes)
    for mine in keys:
        kept = codes[start : start + len(mine)] == KEEP
        start += len(mine)
        lost = np.flatnonzero(~kept & (mine["stretches"] > 0))
        if len(lost) and len(groups):
            of_lost = mine["group"][lost]
            at = np.minimum(np.searchsorted(groups, of_lost), len(groups) - 1)
            kept[lost] = groups[at] == of_lost
        yield mine, kept


def _kept_groups(keys: Sequence[Array], codes: Array) -> Array:
    return np.sort(np.concatenate([mine["group"] for mine in keys])[codes == KEEP])


def _seen(wanted: Array, trained_on: Iterator[Array]) -> Array:
    """Which of the sorted hashes are among those trained on."""
    seen = np.zeros(len(wanted), bool)
    mask = np.uint32(2 ** (_FILTER_SHARE * len(wanted)).bit_length() - 1)
    slots = wanted & mask
    ordered = np.sort(slots)
    alone = ~np.isin(slots, ordered[1:][ordered[1:] == ordered[:-1]])
    likely = np.zeros(int(mask) + 1, bool)
    likely[slots] = True
    for given in trained_on:
        found = sorted_set(given[likely[given & mask]])  # in order: several times as fast
        places = np.searchsorted(wanted, found)
        places[places == len(wanted)] = 0
        places = places[wanted[places] == found]
        seen[places] = True
        likely[slots[places[alone[places]]]] = False  # what is known is not looked up again
    return seen
