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
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.conversion.first_pass.shard_records import hashes
from tasks.conversion.second_pass.duplicates import KEEP
from tasks.conversion.second_pass.hash_tables import distinct, may_repeat, sorted_set

Array = npt.NDArray[Any]
SHARED = 0.5
MOST_HELD_OUT = 20_000
_FILTER_SHARE = 64
"""Entries, for each hash that is wanted, of the table that rules out most others at a glance."""


@dataclass(frozen=True)
class _Prompts:
    """Those of one shard's pairs: each is noted with one of its pairs, the others have no hash."""

    hashes: Array
    groups: Array
    counts: Array
    """Hashes of each."""
    held_out: Array
    """Which count as held out, and have hashes."""
    trained: Array
    """Which count as trained on."""


def near_duplicates(keys: Sequence[Array], codes: Array) -> dict[str, int]:
    """Held-out prompts looked at, and how many of them are nearly training prompts.

    `keys`: the records of all shards as they were read (`shard_records`); `codes`: the verdicts on
    all pairs as they are applied.
    """
    prompts = [*_prompts(keys, codes)]
    looked_at = sorted_set(np.concatenate([p.groups[p.held_out] for p in prompts]))[:MOST_HELD_OUT]
    found, owners = _held_out(prompts, looked_at)
    wanted, places = np.unique(found, return_inverse=True)
    seen = _seen(wanted, prompts) if len(wanted) else found
    # Of every prompt each stretch once, however often it holds it.
    own = distinct(owners * len(wanted) + places)
    owner, each = np.divmod(own, max(1, len(wanted)))
    of_prompt = np.bincount(owner, minlength=len(looked_at))
    shared = np.bincount(owner[seen[each]], minlength=len(looked_at))
    alike = (of_prompt > 0) & (shared >= SHARED * of_prompt)
    return {"looked_at": int((of_prompt > 0).sum()), "near_duplicates": int(alike.sum())}


def _held_out(prompts: Sequence[_Prompts], looked_at: Array) -> tuple[Array, Array]:
    """Stretches of held-out prompts, and the number of each one's group among those looked at."""
    found: list[Array] = []
    owners: list[Array] = []
    for mine in prompts:
        own = np.flatnonzero(mine.held_out)
        owner = np.searchsorted(looked_at, mine.groups[own])
        own, owner = own[owner < len(looked_at)], owner[owner < len(looked_at)]
        counts = mine.counts[own].astype(np.int64)
        before = np.cumsum(mine.counts, dtype=np.int64)[own] - counts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        found.append(mine.hashes[np.repeat(before, counts) + within])
        owners.append(np.repeat(owner, counts))
    return np.concatenate(found), np.concatenate(owners)


def _prompts(keys: Sequence[Array], codes: Array) -> Iterator[_Prompts]:
    """The prompts of every shard. Those of kept pairs count, and those that only a pair that is
    dropped says the stretches of."""
    start = 0
    groups = np.zeros(0, np.uint64) if (codes == KEEP).all() else _kept_groups(keys, codes)
    for mine in keys:
        kept = codes[start : start + len(mine)] == KEEP
        start += len(mine)
        noted, counts = mine["group"], mine["stretches"]
        some = counts > 0
        lost = np.flatnonzero(~kept & some)
        if len(lost) and len(groups):
            at = np.minimum(np.searchsorted(groups, noted[lost]), len(groups) - 1)
            kept[lost] = groups[at] == noted[lost]
        held_out = kept & mine["eval"]
        yield _Prompts(hashes(mine), noted, counts, held_out & some, kept & ~held_out)


def _kept_groups(keys: Sequence[Array], codes: Array) -> Array:
    return np.sort(np.concatenate([mine["group"] for mine in keys])[codes == KEEP])


def _seen(wanted: Array, prompts: Sequence[_Prompts]) -> Array:
    """Which of the sorted hashes are among those trained on."""
    seen = np.zeros(len(wanted), bool)
    mask = np.uint32(2 ** (_FILTER_SHARE * len(wanted)).bit_length() - 1)
    slots = (wanted & mask).astype(np.intp)
    alone = ~may_repeat(slots)
    likely = np.zeros(int(mask) + 1, bool)
    likely[slots] = True
    for mine in prompts:
        hits = np.flatnonzero(likely[(mine.hashes & mask).astype(np.intp)])
        ends = np.cumsum(mine.counts, dtype=np.int64)
        hits = hits[mine.trained[np.searchsorted(ends, hits, "right")]]
        found = sorted_set(mine.hashes[hits])  # in order they are found several times as fast
        places = np.searchsorted(wanted, found)
        places[places == len(wanted)] = 0
        places = places[wanted[places] == found]
        seen[places] = True
        likely[slots[places[alone[places]]]] = False  # what is known is not looked up again
    return seen
