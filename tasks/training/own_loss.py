"""Subclasses of RewardTrainer with a `compute_loss` of their own: its mean, weighted by its share.

    what it returns                                    what is trained on
    the mean over the pairs of its micro-batch         that mean, times the micro-batch's share of
                                                       the weight of all pairs of the step

So a step's loss is the mean over its pairs, however they are spread over micro-batches and
processes, and a constant term that a subclass adds to each micro-batch counts once. RewardTrainer's
own `compute_loss`, called by a subclass, returns that mean with and without num_items_in_batch.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tasks.training.layout.loader import FILLER
from tasks.training.loss.objective import weight_of

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer

SHARE = "num_items_in_batch"
"""The argument that older scripts do not take."""


def shared_out(trainer: "RewardTrainer", ours: Callable[..., Any]) -> Callable[..., Any]:
    """The `compute_loss` of a trainer whose class has one of its own; `ours` is RewardTrainer's."""
    theirs: Callable[..., Any] = trainer.compute_loss
    takes = inspect.signature(theirs).parameters
    told = SHARE in takes or any(p.kind is p.VAR_KEYWORD for p in takes.values())

    def compute_loss(
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | float | None = None,
    ) -> Any:
        if FILLER in inputs:
            return ours(trainer, model, inputs)
        weight = weight_of(inputs)
        more = {SHARE: num_items_in_batch} if told else {}
        found = theirs(model, inputs, return_outputs=return_outputs, **more)
        if num_items_in_batch is None:
            return found
        trainer.guard.saw_batch(inputs.get("pair_id", []), found)
        return found * (weight * trainer.accelerator.num_processes / num_items_in_batch)

    return compute_loss
