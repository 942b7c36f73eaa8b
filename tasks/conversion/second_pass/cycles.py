"""Cycles of preferences: a over b, b over c, and c over a, for one prompt.

No assignment of rewards satisfies all of them. Such pairs are counted but kept, since it cannot be
known which one is wrong. A pair and its reverse is a contradiction (`duplicates`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.conversion.first_pass.shard_records import field_of
from tasks.conversion.preference.pair import TIE
from tasks.conversion.second_pass.duplicates import KEEP
from tasks.conversion.second_pass.hash_tables import may_be_in

Array = npt.NDArray[Any]


def cyclic_pairs(shards: Sequence[Array], codes: Array) -> dict[str, int]:
    """How many kept pairs are in a cycle, or on a path between two cycles, and of how many prompts.

    `shards` are the `KEYS` arrays. A pair is removed if its better answer is the worse one of no
    other pair, or its worse answer the better one of none; this is repeated until none is removed.
    """
    better, worse = field_of(shards, "better"), field_of(shards, "worse")
    left = np.flatnonzero((codes == KEEP) & (field_of(shards, "preference") != TIE))
    # A quick filter that keeps all cycles; the second time among the few pairs that are left.
    left = left[may_be_in(better[left], worse[left])]
    left = left[may_be_in(worse[left], better[left])]
    better, worse, groups = better[left], worse[left], field_of(shards, "group")[left]
    while len(better):
        stays = np.isin(better, worse) & np.isin(worse, better)
        if stays.all():
            break
        better, worse, groups = better[stays], worse[stays], groups[stays]
    return {"pairs": len(better), "prompts": len(np.unique(groups))}
