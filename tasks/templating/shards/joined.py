"""Texts given as lists of slices ("stretches") of one buffer, put together in one copy.

stretches   0 "What?"   1 "Blue."   2 "Red."   3 "<|im_start|>user\\n"   4 "<|im_end|>\\n" ...
chosen      3 0 4 1 5        one copy of stretches in this order makes the texts of all rows
rejected    3 0 4 2 5
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tasks.templating.replay.piece import Places, place_array
from tasks.templating.replay.turn_spans import Mask, Numbers


@dataclass(frozen=True)
class Joined:
    """Rows of a batch whose texts are lists of stretches."""

    mask: Mask
    """`[n]`: which rows of the batch these are."""
    stretches: pa.Array
    lists: Sequence[tuple[int, Places, Places]]
    """Side (0, 1), rows `[r]`, and their stretches `[r, s]`, as many for each of them."""
    first: Mapping[Numbers, int]
    """One row of each shape of which no row has been compared with the template's text yet."""

    def with_others(
        self, places: Places, others: Sequence[pa.Array]
    ) -> tuple[Places, tuple[pa.Array, pa.Array]]:
        """These rows and those at `places`, whose chosen and rejected texts are `others`: all their
        places, in order, and both their texts."""
        kept = self.mask.copy()
        kept[places] = True
        order = np.cumsum(kept) - 1
        base, count = len(self.stretches), len(places)
        lists = [(side, order[rows], numbers) for side, rows, numbers in self.lists]
        more = base + np.arange(2 * count).reshape(2, count, 1)
        lists += [(side, order[places], more[side]) for side in (0, 1)]
        stretches = pa.concat_arrays([self.stretches, *others])
        return np.flatnonzero(kept), copied(stretches, lists, int(kept.sum()))


def copied(
    stretches: pa.Array, lists: Sequence[tuple[int, Places, Places]], count: int
) -> tuple[pa.Array, pa.Array]:
    """Both texts of `count` rows."""
    sizes = np.zeros((2, count), np.int64)
    for side, rows, numbers in lists:
        sizes[side, rows] = numbers.shape[1]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    order = np.empty(begins[-1], np.int64)
    for side, rows, numbers in lists:
        order[begins[side * count + rows][:, None] + np.arange(numbers.shape[1])] = numbers
    whole = stretches.take(place_array(order))
    _, offsets, data = whole.buffers()
    ends = np.frombuffer(offsets, np.int32, len(whole) + 1)[begins]
    texts = pa.Array.from_buffers(pa.string(), 2 * count, [None, pa.py_buffer(ends), data])
    return texts.slice(0, count), texts.slice(count)
