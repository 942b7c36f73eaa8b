"""Many id lists in one buffer, and what is asked of pairs of them, without a Python object per id.

ids      7 8 9 | 7 8 | 4        int32
offsets  0 3 5 6                int64, one more than there are lists
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.tokenization.encode import Ids

Offsets = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
PAIRS_AT_ONCE = 1 << 21
"""Ids that are compared in one go: 50 MB of places."""


@dataclass(frozen=True)
class FlatIds:
    """Lists of token ids, one after the other."""

    ids: Ids
    offsets: Offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Counts:
        """How many ids each list has."""
        return np.diff(self.offsets)

    def lists(self) -> list[Ids]:
        """Each list as a view."""
        bounds: list[int] = self.offsets.tolist()
        return [self.ids[a:b] for a, b in pairwise(bounds)]

    def arrow(self) -> pa.ListArray:
        """The same as Arrow's list<int32>, sharing the ids' memory."""
        return pa.ListArray.from_arrays(
            pa.array(self.offsets.astype(np.int32)), pa.array(self.ids, pa.int32())
        )

    def take(self, places: npt.NDArray[np.intp]) -> "FlatIds":
        """The lists at these places, in this order."""
        return join([self.lists()[place] for place in places.tolist()])


def join(lists: Sequence[Ids]) -> FlatIds:
    """Lists of ids as one buffer."""
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(ids) for ids in lists], out=offsets[1:])
    return FlatIds(np.concatenate([np.empty(0, np.int32), *lists]), offsets)


def common_lengths(both: FlatIds) -> Counts:
    """How many leading ids each pair's sides share; the first half of the lists is the chosen's."""
    count = len(both) // 2
    starts, lengths = both.offsets[:-1], both.lengths
    shorter = np.minimum(lengths[:count], lengths[count:])
    found = np.empty(count, np.int64)
    first = 0
    while first < count:
        upto = int(np.searchsorted(np.cumsum(shorter[first:]), PAIRS_AT_ONCE, "right")) + first
        part = slice(first, max(upto, first + 1))
        found[part] = _common(both.ids, starts[:count][part], starts[count:][part], shorter[part])
        first = part.stop
    return found


def _common(ids: Ids, chosen: Offsets, rejected: Offsets, shorter: Counts) -> Counts:
    """Length of the common beginning of the stretches at `chosen` and at `rejected`."""
    begins = np.cumsum(shorter) - shorter
    steps = np.arange(int(shorter.sum()))
    differ = np.flatnonzero(
        ids[steps + np.repeat(chosen - begins, shorter)]
        != ids[steps + np.repeat(rejected - begins, shorter)]
    )
    after = np.append(differ, len(steps))[np.searchsorted(differ, begins)]
    return np.minimum(after - begins, shorter)
