"""Groups of sequences with a common prefix, from their ids alone: for scoring.

In lexicographic order sequences of one prompt stand side by side. A group of k sequences whose
common prefix has p tokens saves (k - 1) p of them; a neighbour joins if that saving grows:

    a b c d x    p = 4            a b c d x, a b c d y, a b c z: two save 4, three save 2 * 3 = 6
    a b c d y    p = 3, joins
    a b c z      p = 3
    q r          p = 0, begins a group of its own
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tasks.training.layout.plan import Ids, shared_prefix


def shared_groups(sequences: Sequence[Ids]) -> list[int]:
    """The group of every sequence, `[S]` numbers; those of one group share their prefix."""
    order = sorted(range(len(sequences)), key=lambda i: _sortable(sequences[i]))
    groups = [0] * len(sequences)
    group, members, prefix = 0, 1, 0
    for before, index in pairwise(order):
        common = shared_prefix([sequences[before], sequences[index]])
        reach = common if members == 1 else min(prefix, common)
        if reach * members > prefix * (members - 1):
            members, prefix = members + 1, reach
        else:
            group, members, prefix = group + 1, 1, 0
        groups[index] = group
    return groups


def _sortable(ids: Ids) -> bytes:
    """Bytes that sort as the ids do."""
    return np.ascontiguousarray(ids, dtype=">u4").tobytes()
