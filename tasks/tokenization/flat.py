"""Many lists of token ids in one buffer, and operations on pairs of them, without Python loops.

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
FIRST_WINDOW = 64
"""Ids of each side of a pair that are compared first."""


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


def join(lists: Sequence[Ids]) -> FlatIds:
    """Lists of ids as one buffer."""
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(ids) for ids in lists], out=offsets[1:])
    return FlatIds(np.concatenate([np.empty(0, np.int32), *lists]), offsets)


def halves_joined(parts: Sequence[FlatIds]) -> FlatIds:
    """Joins parts, each with some chosen sides and then as many rejected ones, into one with all
    chosen sides and then all rejected ones."""
    if len(parts) == 1:
        return parts[0]
    counts = [len(part) // 2 for part in parts]
    ends = [int(part.offsets[count]) for part, count in zip(parts, counts, strict=True)]
    ids = [part.ids[:end] for part, end in zip(parts, ends, strict=True)]
    ids += [part.ids[end:] for part, end in zip(parts, ends, strict=True)]
    lengths = [part.lengths[:count] for part, count in zip(parts, counts, strict=True)]
    lengths += [part.lengths[count:] for part, count in zip(parts, counts, strict=True)]
    offsets = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))
    return FlatIds(np.concatenate([np.empty(0, np.int32), *ids]), offsets)


def common_lengths(both: FlatIds) -> Counts:
    """The number of leading ids that each pair's sides share; the first half of the lists is
    chosen.

    A window of every pair that has agreed so far is compared in one go, then one twice as wide:

        7 8 9 9 | 2 1 5 5 ...
        7 8 9 9 | 2 1 4 5 ...    a pair drops out at its first difference
        = = = =   = = !
    """
    count, lengths = len(both) // 2, both.lengths
    chosen, rejected = both.offsets[:count], both.offsets[count:-1]
    shorter = np.minimum(lengths[:count], lengths[count:])
    after = np.zeros(int(shorter.max(initial=0)) + FIRST_WINDOW, np.int32)
    padded = np.concatenate([both.ids, after])
    found = np.zeros(count, np.int64)
    going = np.flatnonzero(shorter)
    done, width = 0, FIRST_WINDOW
    while len(going):
        every = np.ndarray(len(both.ids) + 1, f"V{4 * width}", padded, strides=(4,))
        ours, theirs = (
            every[side[going] + done].view(np.int32).reshape(-1, width)
            for side in (chosen, rejected)
        )
        differ = ours != theirs
        place = differ.argmax(1)
        ends = differ[np.arange(len(going)), place]
        found[going] = done + np.where(ends, place, width)
        done, width = done + width, 2 * width
        going = going[~ends & (shorter[going] > done)]
    return np.minimum(found, shorter)


def shared_prefixes(common: Counts, shorter: Counts) -> Counts:
    """Lengths of the shared prefixes: at most `common`, and each side keeps one id of its own, at
    which its reward is read."""
    return np.maximum(0, np.minimum(common, shorter - 1))
