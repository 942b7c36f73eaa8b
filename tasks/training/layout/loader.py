"""Data loaders that give every process its share of each global batch.

    order of the pairs     the one that accelerate's sampler draws from the seed and the epoch
    global batch           the next micro-batch x accumulation x processes items of that order
    item of this loader    {"micro_batches": [...]}: what one process computes of it, or, with
                           accumulation, of a part of its micro-steps

Batches depend on seed, epoch and step alone, so a resumed run skips exactly those it has had. A
process without items in a micro-step gets a *filler*: an item whose loss is multiplied by 0.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader

from tasks.training.layout.dealing import Costs, Numbers, deal

MICRO_BATCHES = "micro_batches"
FILLER = "filler"
WINDOW = 50
"""Global batches within which `by_length` sorts items by length, as in transformers."""


@dataclass(frozen=True)
class MicroBatch:
    """The indices of a micro-batch's items in the data set."""

    items: tuple[int, ...]
    filler: bool = False


@dataclass(frozen=True)
class Dealing:
    """How global batches are made and divided among processes and micro-batches."""

    size: int
    """Items of a global batch."""
    processes: int
    process: int
    accumulation: int = 1
    """Items of the loader per global batch; each holds at least one micro-batch."""
    budget: int | None = None
    """Most tokens that a micro-batch computes."""
    by_length: bool = False
    """Whether a global batch is made of items of similar length."""
    drop_last: bool = False
    seed: int = 0


class GlobalBatches:
    """Yields `accumulation` lists of MicroBatch for every global batch. A smaller last batch gives
    as many lists as a plain loader has batches, as Trainer counts an epoch's steps by them."""

    def __init__(self, sampler: Any, costs: Costs, dealing: Dealing) -> None:
        self.sampler = sampler
        self.costs = costs
        self.dealing = dealing
        self.batch_size = dealing.size
        self.drop_last = dealing.drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The epoch whose order is drawn next."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        return -(-self._count() // self._step_size)

    def __iter__(self) -> Iterator[list[MicroBatch]]:
        d = self.dealing
        for rows in self._global_batches():
            parts = -(-len(rows) // self._step_size)
            steps = deal(self.costs.of(rows), d.processes, parts, d.budget)
            filler = MicroBatch((min(rows, key=lambda row: (self.costs.tokens[row], row)),), True)
            own = [
                MicroBatch(tuple(rows[at] for at in step[d.process])) if step[d.process] else filler
                for step in steps
            ]
            for part in np.array_split(np.arange(len(own)), parts):
                yield [own[step] for step in part]

    @property
    def _step_size(self) -> int:
        """Items of one accumulation step, over all processes."""
        return self.dealing.size // self.dealing.accumulation

    def _count(self) -> int:
        """Items of an epoch."""
        count = len(self.sampler)
        return count - count % self._step_size if self.dealing.drop_last else count

    def _global_batches(self) -> list[list[int]]:
        """The rows of every global batch of an epoch."""
        d, order = self.dealing, [int(row) for row in self.sampler][: self._count()]
        if not d.by_length:
            return [order[start : start + d.size] for start in range(0, len(order), d.size)]
        draw = np.random.default_rng([d.seed, self.epoch])
        whole = len(order) - len(order) % d.size  # a smaller last batch stays the last
        shuffled: list[list[int]] = []
        for start in range(0, whole, WINDOW * d.size):
            rows = order[start : min(start + WINDOW * d.size, whole)]
            rows.sort(key=lambda row: -self.costs.tokens[row])
            batches = [rows[at : at + d.size] for at in range(0, len(rows), d.size)]
            shuffled += [batches[number] for number in draw.permutation(len(batches))]
        return [*shuffled, *([order[whole:]] if whole < len(order) else [])]


class MicroBatches(torch.utils.data.Dataset[tuple[list[Any], bool]]):
    """The items of a MicroBatch, and whether it is a filler."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, micro: MicroBatch) -> tuple[list[Any], bool]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return [self.items[row] for row in micro.items], micro.filler


@dataclass(frozen=True)
class MicroCollator:
    """Collates each micro-batch by itself."""

    collate: Callable[[list[Any]], dict[str, Any]]

    def __call__(self, micro_batches: Sequence[tuple[list[Any], bool]]) -> dict[str, Any]:
        """`{"micro_batches": [batch, ...]}`; a filler has the further key `filler`."""
        return {
            MICRO_BATCHES: [
                self.collate(items) | ({FILLER: True} if filler else {})
                for items, filler in micro_batches
            ]
        }


def dealt_loader(
    plain: DataLoader[Any], costs: Costs, dealing: Dealing, device: torch.device, *, blocking: bool
) -> DataLoader[Any]:
    """A loader of GlobalBatches with the order and the workers of `plain`, which accelerate has
    prepared. `blocking`: whether copies to the device are waited for.
    """
    inner: Any = plain.batch_sampler
    inner = getattr(inner, "batch_sampler", inner)  # inside accelerate's BatchSamplerShard
    batches = GlobalBatches(inner.sampler, costs, dealing)
    return loader_like(plain, MicroBatches(plain.dataset), device, blocking, batch_sampler=batches)


def loader_like(
    plain: DataLoader[Any], dataset: Any, device: torch.device, blocking: bool, **batching: Any
) -> DataLoader[Any]:
    """A loader of this process's micro-batches with the settings of `plain`, a prepared loader.

    `batching`: `batch_size` or `batch_sampler` of DataLoader.
    """
    collate: Any = plain.collate_fn
    copied: dict[str, Any] = {
        name: getattr(plain, name)
        for name in (
            *("num_workers", "pin_memory", "persistent_workers", "multiprocessing_context"),
            *("in_order", "prefetch_factor", "worker_init_fn"),
        )
    }
    loader: DataLoader[Any] = DataLoader(
        dataset, collate_fn=MicroCollator(collate), **copied, **batching
    )
    # accelerate must not divide the batches again: for it there is one process
    return prepare_data_loader(
        loader,
        device,
        num_processes=1,
        process_index=0,
        put_on_device=True,
        dispatch_batches=False,
        non_blocking=not blocking,
    )


def items_of(loader: DataLoader[Any]) -> Any:
    """The pairs, or comparisons, that a loader's batches are made of."""
    dataset: Any = loader.dataset
    return dataset.items if isinstance(dataset, MicroBatches) else dataset


def longest_batch(loader: DataLoader[Any], lengths: Numbers, size: int) -> dict[str, Any]:
    """A micro-batch of the longest items: `size` of them, or fewer if the budget has no room.

    `lengths`: tokens of the longer side of every item, `[N]`.
    """
    order = np.argsort(-lengths, kind="stable")
    rows: list[int] = order[:size].tolist()
    sampler, collate = loader.batch_sampler, loader.collate_fn
    if isinstance(sampler, GlobalBatches) and isinstance(collate, MicroCollator):
        budget, collate = sampler.dealing.budget, collate.collate
        if budget is not None:
            rows = sampler.costs.fitting(order, budget, size)
    items = items_of(loader)
    batch: Any = collate([items[row] for row in rows])
    return batch


def micro_batches(batches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The micro-batches of the items of any training loader, without fillers."""
    every = (micro for batch in batches for micro in batch.get(MICRO_BATCHES, [batch]))
    return [micro for micro in every if FILLER not in micro]
