"""Counts over the pairs that are kept.

In:  the records of all shards, and the verdicts on all pairs as the params apply them.
Out: per source, the pairs kept and dropped; of those kept, counts of several facts per split.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tasks.artifact import Ledger
from tasks.conversion.first_pass.shard_records import field_of
from tasks.conversion.preference.pair import TIE
from tasks.conversion.preference.splits import SPLITS
from tasks.conversion.second_pass.duplicates import (
    ALIKE,
    CODES,
    CONTRADICTION,
    DUPLICATE,
    ELSEWHERE,
    EXCLUDED,
    JOINED,
    KEEP,
    OUTVOTED,
    Array,
    with_preferences,
)

REASONS = {
    DUPLICATE: "duplicate",
    ALIKE: "duplicate",
    CONTRADICTION: "contradiction",
    ELSEWHERE: "held_out_elsewhere",
    EXCLUDED: "excluded",
    OUTVOTED: "outvoted",
    JOINED: "joined",
}


@dataclass(frozen=True)
class KeptPairs:
    """Counts over the kept pairs; sums only, so that rates are divided once, at the end."""

    ledger: Ledger
    counts: Mapping[tuple[str, str, str], int]
    """(source, split, what) -> n, where what is one of the facts of `_facts`."""
    groups: Array
    """The group of every kept pair."""
    held_out: Array
    """Whether each of them is in eval."""


def counted(
    shards: Sequence[Array],
    codes: Array,
    sources: Sequence[str],
    preferences: Array | None = None,
) -> KeptPairs:
    """The counts, given the records of all shards, the verdicts as the params apply them, and the
    `preferences` of the verdicts."""
    ledger = Ledger()
    per_code = np.bincount(field_of(shards, "source") * np.intp(len(CODES)) + codes)
    for place, n in enumerate(per_code.tolist()):
        source, code = sources[place // len(CODES)], place % len(CODES)
        if n and code == KEEP:
            ledger.count_out(source, n)
        elif n:
            ledger.drop(source, REASONS[code], n)
    kept = slice(None) if (codes == KEEP).all() else codes == KEEP
    held_out = field_of(shards, "eval")[kept]
    split = field_of(shards, "source")[kept] * np.intp(len(SPLITS)) + held_out
    counts: dict[tuple[str, str, str], int] = {}
    preference = field_of(shards, "preference")
    if preferences is not None:
        preference = with_preferences(preference, preferences)
    for what, true in _facts(shards, kept, preference[kept]):
        cells = np.bincount(split[true], minlength=len(SPLITS) * len(sources)).tolist()
        for (source, name), n in zip(product(sources, SPLITS), cells, strict=True):
            counts[source, name, what] = n
    return KeptPairs(ledger, counts, field_of(shards, "group")[kept], held_out)


def _facts(
    shards: Sequence[Array], kept: Array | slice, preference: Array
) -> Iterator[tuple[str, Array]]:
    """Each fact that is counted, with a mask of the kept pairs for which it is true."""
    longer, tie = field_of(shards, "longer")[kept], preference == TIE
    yield "pairs", np.ones(len(tie), bool)
    yield "ties", tie
    yield "longer", (longer > 0) & ~tie
    yield "equal", (longer == 0) & ~tie
    yield "conversational", field_of(shards, "conversational")[kept]
    yield "with_preference", preference != 1
    for name in ("margin", "comparison"):
        yield f"with_{name}", field_of(shards, f"has_{name}")[kept]
