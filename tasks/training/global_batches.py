"""RewardTrainer's training batches: each global batch is divided into micro-batches by tokens.

A global batch is all pairs of one optimizer step. Processes get shares of nearly equal tokens, and
`max_tokens_per_micro_batch` bounds each micro-batch. A step keeps its pairs and its loss, their
mean, so training gives the same results, within rounding, as without the division.
"""

import contextlib
from typing import Any

import torch
from datasets import Dataset, IterableDataset
from torch import nn
from torch.utils.data import DataLoader
from transformers.trainer_utils import has_length

from tasks.errors import DataError, ParamsError
from tasks.training.batches.collator import DataCollatorForPreference
from tasks.training.batches.comparisons import Comparisons
from tasks.training.layout.lengths import item_costs
from tasks.training.layout.loader import (
    MICRO_BATCHES,
    Dealing,
    dealt_loader,
    loader_like,
    micro_batches,
)
from tasks.training.layout.stream import StreamShare, fillers
from tasks.training.loss.objective import weight_of
from tasks.training.metrics.evaluating import EvaluatingTrainer
from tasks.training.process.engines import accumulate_only
from tasks.training.settings.schedule import check_warm_up


class GlobalBatchTrainer(EvaluatingTrainer):
    """Trainer whose data loader yields this process's micro-batches of each global batch."""

    def set_initial_training_values(self, args: Any, dataloader: Any) -> Any:
        """As in transformers.

        Raises:
            ParamsError: `dataloader_drop_last` leaves an epoch without a batch; or `check_warm_up`.
        """
        if args.dataloader_drop_last and _is_empty(dataloader):
            kind = "comparisons" if self.objective.params.of_comparisons else "pairs"
            raise ParamsError(
                f"the train dataset has {self.num_examples(dataloader)} {kind}, but a batch takes "
                f"{args.train_batch_size * args.world_size} ({args.train_batch_size} in each of "
                f"{args.world_size} processes), and dataloader_drop_last leaves out a smaller one; "
                "leave dataloader_drop_last out, or lower per_device_train_batch_size"
            )
        values = super().set_initial_training_values(args, dataloader)
        if self.lr_scheduler is None:
            check_warm_up(args, steps=values[-1])
        return values

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches of pairs; under a loss over comparisons, batches of whole comparisons.

        Raises:
            ParamsError: `max_tokens_per_micro_batch` or `group_by_length` is set, and the rows are
                a stream, or the collator is not DataCollatorForPreference.
        """
        pairs: Any = self.train_dataset
        args = self._args
        collator: Any = self.data_collator
        by_tokens = args.max_tokens_per_micro_batch is not None or self._by_length
        has_lengths = isinstance(pairs, Dataset) and isinstance(collator, DataCollatorForPreference)
        if by_tokens and not has_lengths:
            raise ParamsError(
                "max_tokens_per_micro_batch and group_by_length need a Dataset, whose lengths are "
                "known, and DataCollatorForPreference; leave them out, or the stream or collator"
            )
        if self.objective.params.of_comparisons:
            self.train_dataset = Comparisons(pairs)
        try:
            plain = super().get_train_dataloader()
        finally:
            self.train_dataset = pairs
        blocking = not self.accelerator.dataloader_config.non_blocking
        if isinstance(pairs, IterableDataset):
            share = StreamShare(
                pairs,
                args.per_device_train_batch_size,
                args.world_size,
                args.process_index,
                drop_last=args.dataloader_drop_last,
            )
            return loader_like(plain, share, args.device, blocking, batch_size=None)
        if not has_lengths or not (by_tokens or args.world_size > 1):
            return plain
        items: Any = plain.dataset
        costs = item_costs(items, collator.layout, collator.pad_to_multiple_of)
        return dealt_loader(plain, costs, self._dealing(), args.device, blocking=blocking)

    def _dealing(self) -> Dealing:
        args = self._args
        accumulation = args.gradient_accumulation_steps
        return Dealing(
            size=args.per_device_train_batch_size * args.world_size * accumulation,
            processes=args.world_size,
            process=args.process_index,
            accumulation=accumulation,
            budget=args.max_tokens_per_micro_batch,
            by_length=self._by_length,
            drop_last=args.dataloader_drop_last,
            seed=args.seed if args.data_seed is None else args.data_seed,
        )

    @property
    def _by_length(self) -> bool:
        return self._args.train_sampling_strategy == "group_by_length"

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        """As in transformers, but random under `group_by_length` too: `Dealing.by_length` groups
        whole global batches later."""
        if not self._by_length:
            return super()._get_train_sampler(train_dataset)
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        return torch.utils.data.RandomSampler(rows)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Any]:
        """As in transformers; a stream's incomplete last step is filled with empty micro-batches.

        Raises:
            DataError: a stream ends before the first step.
        """
        samples, items = super().get_batch_samples(*args, **kwargs)
        if not samples and not self.state.global_step:
            raise DataError(
                "the train dataset is a stream that gave no batch to train on: it holds no row, "
                "none that can be used (the log names the first that is not, and why), or fewer "
                "than a batch under dataloader_drop_last; look at its rows, or load it without "
                "streaming=True to have them counted by reason"
            )
        if samples and isinstance(self.train_dataset, IterableDataset):
            missing = self._args.gradient_accumulation_steps - len(samples)
            samples += [fillers(samples[-1])] * missing
        return samples, items

    def forward_backward(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any
    ) -> torch.Tensor:
        """The summed loss of one item of the loader, which holds one or more micro-batches.

        Gradients are reduced over processes in the backward pass of the last one.
        """
        batches: list[dict[str, Any]] = inputs.get(MICRO_BATCHES, [inputs])
        losses: list[torch.Tensor] = []
        for number, batch in enumerate(batches, 1):
            is_last = number == len(batches)
            with contextlib.nullcontext() if is_last else accumulate_only(self.accelerator, model):
                losses.append(super().forward_backward(model, batch, num_items_in_batch))
        return torch.stack(losses).sum()

    def _get_num_items_in_batch(
        self, batch_samples: list[dict[str, Any]], device: torch.device
    ) -> torch.Tensor | int | None:
        """Sum of the pairs' weights in one optimizer step, over all micro-batches and processes."""
        if not batch_samples:
            return None
        weight: Any = sum(weight_of(batch) for batch in micro_batches(batch_samples))
        if self.accelerator.num_processes == 1:
            return weight
        shares: Any = self.accelerator.gather(torch.as_tensor(weight, device=device).float())
        return shares.sum()

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """As in transformers, summed over the micro-batches of an item."""
        return sum(
            super(GlobalBatchTrainer, self).floating_point_ops(b) for b in micro_batches([inputs])
        )


def _is_empty(dataloader: Any) -> bool:
    return has_length(dataloader) and len(dataloader) == 0
