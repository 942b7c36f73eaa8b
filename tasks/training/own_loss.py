"""Weights the loss of a RewardTrainer subclass that has a `compute_loss` of its own.

    what it returns                                    what is trained on
    the mean over the pairs of its micro-batch         that mean, times the micro-batch's share of
                                                       the weight of all pairs of the step

So a step's loss is the mean over its pairs, however they are divided among micro-batches and
processes, and a constant that a subclass adds to each micro-batch counts once. RewardTrainer's
`compute_loss`, called by a subclass, returns that mean with and without num_items_in_batch.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tasks.training.batch_loss import BatchLossTrainer
from tasks.training.layout.loader import FILLER
from tasks.training.loss.objective import weight_of

SHARE = "num_items_in_batch"
"""An argument of `compute_loss` that older scripts do not take."""


def with_weighted_mean(trainer: BatchLossTrainer) -> Callable[..., Any]:
    """The trainer's own `compute_loss`, weighted."""
    own: Callable[..., Any] = trainer.compute_loss
    parameters = inspect.signature(own).parameters
    takes_share = SHARE in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def compute_loss(
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | float | None = None,
    ) -> Any:
        if FILLER in inputs:
            return BatchLossTrainer.compute_loss(trainer, model, inputs)
        weight = weight_of(inputs)
        share = {SHARE: num_items_in_batch} if takes_share else {}
        mean = own(model, inputs, return_outputs=return_outputs, **share)
        if num_items_in_batch is None:
            return mean
        trainer.guard.saw_batch(inputs.get("pair_id", []), mean)
        return mean * (weight * trainer.accelerator.num_processes / num_items_in_batch)

    return compute_loss
