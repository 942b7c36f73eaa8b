"""A stream divided among processes: each computes its part of every batch, no row twice.

    rows of a batch    0 1 2 3 4 5 6 7   8 9 10      4 in each of 2 processes
    process 0          [0 1 2 3]         [8 9]
    process 1          [4 5 6 7]         [10]        a filler, if nothing were left for it

All processes read the whole stream, however many files it has, so they end at the same time.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from tasks.training.layout.loader import FILLER, MICRO_BATCHES

Item = list[tuple[list[Any], bool]]
"""What a MicroCollator collates: the rows of a micro-batch, and whether it is a filler."""


class StreamShare(torch.utils.data.IterableDataset[Item]):
    """The micro-batches of one process, of `size` rows each except the last."""

    def __init__(
        self, rows: Any, size: int, processes: int, process: int, *, drop_last: bool
    ) -> None:
        self.rows = rows
        self.size, self.processes, self.process = size, processes, process
        self.drop_last = drop_last

    def set_epoch(self, epoch: int) -> None:
        """The epoch whose order a shuffled stream draws next."""
        self.rows.set_epoch(epoch)

    def __iter__(self) -> Iterator[Item]:
        rows, whole = iter(self.rows), self.size * self.processes
        while batch := list(itertools.islice(rows, whole)):
            if self.drop_last and len(batch) < whole:
                return
            share = -(-len(batch) // self.processes)
            mine = batch[self.process * share : (self.process + 1) * share]
            yield [(mine or batch[:1], not mine)]


def fillers(item: dict[str, Any]) -> dict[str, Any]:
    """The item with all of its micro-batches marked as fillers."""
    return {MICRO_BATCHES: [micro | {FILLER: True} for micro in item[MICRO_BATCHES]]}
