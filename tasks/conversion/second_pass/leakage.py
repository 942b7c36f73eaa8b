"""Near duplicates: how many held-out prompts nearly equal a training prompt.

In:  of every shard the records of its pairs and its prompts' stretches (`stretches`), both made in
     the first pass; and the verdicts on all pairs.
Out: two counts, for the report.

Equal prompts share a group and so a split; near duplicates differ in a few words. A held-out prompt
is one if at least half of its stretches occur in training prompts. A prompt counts if any pair of
its group is kept. Of very many held-out prompts, those with the smallest group hashes are examined;
training prompts are all compared, shard by shard.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.conversion.first_pass.shard_records import field_of, hashes
from tasks.conversion.second_pass.duplicates import KEEP
from tasks.conversion.second_pass.hash_tables import distinct, may_repeat, sorted_set

Array = npt.NDArray[Any]
SHARED = 0.5
MOST_HELD_OUT = 20_000
_FILTER_SHARE = 64
"""Slots, for each hash that is looked for, of the table that rules out most other hashes."""


@dataclass(frozen=True)
class _Prompts:
    """The prompts of one shard's pairs; of pairs with the same prompt, one has its hashes."""

    hashes: Array
    groups: Array
    counts: Array
    """How many hashes each has."""
    held_out: Array
    """Mask: counted as held out, and with hashes."""
    trained: Array
    """Mask: counted as trained on."""


def near_duplicates(keys: Sequence[Array], codes: Array) -> dict[str, int]:
    """How many held-out prompts were examined, and how many of them are near duplicates.

    `keys`: the records of all shards as they were read (`shard_records`); `codes`: the verdicts on
    all pairs as the params apply them.
    """
    prompts = [*_prompts(keys, codes)]
    looked_at = sorted_set(np.concatenate([p.groups[p.held_out] for p in prompts]))[:MOST_HELD_OUT]
    stretches, owners = _held_out(prompts, looked_at)
    wanted, places = np.unique(stretches, return_inverse=True)
    seen = _seen(wanted, prompts) if len(wanted) else stretches
    # Each stretch counts once per prompt, however often the prompt has it.
    own = distinct(owners * len(wanted) + places)
    owner, each = np.divmod(own, max(1, len(wanted)))
    of_prompt = np.bincount(owner, minlength=len(looked_at))
    shared = np.bincount(owner[seen[each]], minlength=len(looked_at))
    alike = (of_prompt > 0) & (shared >= SHARED * of_prompt)
    return {"looked_at": int((of_prompt > 0).sum()), "near_duplicates": int(alike.sum())}


def _held_out(prompts: Sequence[_Prompts], looked_at: Array) -> tuple[Array, Array]:
    """Stretches of held-out prompts; for each the position of its group in `looked_at`."""
    stretches: list[Array] = []
    owners: list[Array] = []
    for mine in prompts:
        own = np.flatnonzero(mine.held_out)
        owner = np.searchsorted(looked_at, mine.groups[own])
        own, owner = own[owner < len(looked_at)], owner[owner < len(looked_at)]
        counts = mine.counts[own].astype(np.int64)
        before = np.cumsum(mine.counts, dtype=np.int64)[own] - counts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        stretches.append(mine.hashes[np.repeat(before, counts) + within])
        owners.append(np.repeat(owner, counts))
    return np.concatenate(stretches), np.concatenate(owners)


def _prompts(keys: Sequence[Array], codes: Array) -> Iterator[_Prompts]:
    """The prompts of every shard. A dropped pair counts, too, if it has its group's stretches and
    another pair of the group is kept in the same split."""
    start = 0
    groups, splits = (field_of(keys, name)[codes == KEEP] for name in ("group", "eval"))
    kept_in = {split: np.sort(groups[splits == split]) for split in (False, True)}
    for mine in keys:
        kept = codes[start : start + len(mine)] == KEEP
        start += len(mine)
        noted, counts = mine["group"], mine["stretches"]
        some = counts > 0
        for split, ordered in kept_in.items():
            lost = np.flatnonzero(~kept & some & (mine["eval"] == split))
            kept[lost] = _among(noted[lost], ordered)
        held_out = kept & mine["eval"]
        yield _Prompts(hashes(mine), noted, counts, held_out & some, kept & ~held_out)


def _among(values: Array, ordered: Array) -> Array:
    """A mask of the values that are among sorted others."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    return ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values


def _seen(wanted: Array, prompts: Sequence[_Prompts]) -> Array:
    """A mask of the sorted hashes that occur in training prompts."""
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
        found = sorted_set(mine.hashes[hits])  # sorted values are looked up several times as fast
        places = np.searchsorted(wanted, found)
        places[places == len(wanted)] = 0
        places = places[wanted[places] == found]
        seen[places] = True
        likely[slots[places[alone[places]]]] = False  # found hashes are not looked up again
    return seen
