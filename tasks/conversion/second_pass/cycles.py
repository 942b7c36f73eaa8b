"""Cycles of preferences: a over b, b over c, and c over a, for one prompt.

No order of rewards satisfies all of them. Counted, and left in: which of them is wrong is not to
be seen. A pair and its reverse is a contradiction, and judged elsewhere.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.conversion.first_pass.shard_records import field_of
from tasks.conversion.second_pass.duplicates import KEEP
from tasks.conversion.second_pass.hash_tables import may_be_in

Array = npt.NDArray[Any]


def cyclic_pairs(shards: Sequence[Array], codes: Array) -> dict[str, int]:
    """How many kept pairs stand in a cycle, or lead from one to another, and of how many prompts.

    `shards` are the `KEYS` arrays. Pairs whose better answer is never the worse one of another,
    or the other way round, are peeled off until none is left to peel.
    """
    better, worse = field_of(shards, "better"), field_of(shards, "worse")
    left = np.flatnonzero((codes == KEEP) & ~field_of(shards, "tie"))
    # The second time among the few that the first one left: a cycle is among them.
    left = left[may_be_in(better[left], worse[left])]
    left = left[may_be_in(worse[left], better[left])]
    better, worse, groups = better[left], worse[left], field_of(shards, "group")[left]
    while len(better):
        stays = np.isin(better, worse) & np.isin(worse, better)
        if stays.all():
            break
        better, worse, groups = better[stays], worse[stays], groups[stays]
    return {"pairs": len(better), "prompts": len(np.unique(groups))}
