"""Cycles of preferences: a over b, b over c, and c over a, for one prompt.

No order of rewards satisfies all of them. Counted, and left in: which of them is wrong is not to
be seen. A pair and its reverse is a contradiction, and judged elsewhere.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.conversion.duplicates import KEEP

Array = npt.NDArray[Any]
FILTER = 2**22


def cyclic_pairs(shards: Sequence[Array], codes: Array) -> dict[str, int]:
    """How many kept pairs stand in a cycle, or lead from one to another, and of how many prompts.

    `shards` are the `KEYS` arrays. Pairs whose better answer is never the worse one of another,
    or the other way round, are peeled off until none is left to peel.
    """
    parts: list[Array] = []
    start = 0
    for keys in shards:
        mine = codes[start : start + len(keys)] == KEEP
        start += len(keys)
        parts.append(keys[mine & ~keys["tie"]][["better", "worse", "group"]])
    pairs = np.concatenate(parts)
    better, worse, groups = pairs["better"], pairs["worse"], pairs["group"]
    stays = _may_be_in(better, worse) & _may_be_in(worse, better)
    better, worse, groups = better[stays], worse[stays], groups[stays]
    while len(better):
        stays = np.isin(better, worse) & np.isin(worse, better)
        if stays.all():
            break
        better, worse, groups = better[stays], worse[stays], groups[stays]
    return {"pairs": len(better), "prompts": len(np.unique(groups))}


def _may_be_in(values: Array, others: Array) -> Array:
    """Which values are among the others, and a few more: nearly all are ruled out at a glance."""
    held = np.zeros(FILTER, bool)
    held[others % np.uint64(FILTER)] = True
    return held[values % np.uint64(FILTER)]
