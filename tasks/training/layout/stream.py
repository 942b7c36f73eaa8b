"""A stream shared out: every process computes its part of the same rows, none of them twice.

    rows of a batch    0 1 2 3 4 5 6 7   8 9 10      4 in each of 2 processes
    process 0          [0 1 2 3]         [8 9]
    process 1          [4 5 6 7]         [10]        a filler, were there nothing left for it

All processes read the whole stream, whatever files it is made of, so they end at the same time.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from tasks.training.layout.loader import FILLER, MICRO_BATCHES, like

Item = list[tuple[list[Any], bool]]
"""What a MicroCollator collates: the rows of a micro-batch, and whether they only fill."""


class StreamShare(torch.utils.data.IterableDataset[Item]):
    """The micro-batches of one process, `size` rows each but for the last."""

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


def shared_out(
    plain: DataLoader[Any], share: StreamShare, device: torch.device, *, blocking: bool
) -> DataLoader[Any]:
    """The loader of a share, with the workers and the collator of a prepared plain one."""
    return like(plain, share, device, blocking, batch_size=None)


def fillers(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a loader whose micro-batches count nothing, in the place of one that is not."""
    return {MICRO_BATCHES: [micro | {FILLER: True} for micro in item[MICRO_BATCHES]]}
