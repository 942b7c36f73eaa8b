"""Gradient checkpointing that was left open: switched off where the device has room to do without.

    longest batch, activations kept    fits, and leaves a tenth    they are kept: no second forward
                                       does not                    they are computed twice

The numbers are the same either way; a second forward pass is a third of a step's work. The
arguments stay as they were given: they identify the job that a checkpoint belongs to, and the next
run decides anew.
"""

from typing import TYPE_CHECKING

import torch

from tasks.training.model.adapter import base_of
from tasks.training.preflight.forecast import peak_memory

if TYPE_CHECKING:
    from tasks.training.preflight.memory import AdaptiveTrainer
    from tasks.training.trainer import RewardTrainer

MOST = 0.9
"""Share of the device's memory that the longest batch may take if activations are to be kept."""


def keep_activations(trainer: "RewardTrainer") -> None:
    """Switches gradient checkpointing off for this run."""
    model = base_of(trainer.accelerator.unwrap_model(trainer.model))
    found = [m for m in model.modules() if getattr(m, "gradient_checkpointing", False)]
    for module in found:
        module.gradient_checkpointing = False  # pyright: ignore[reportArgumentType]
    trainer.keeping, trainer.keeps_activations = found, True


def recompute_activations(trainer: "AdaptiveTrainer") -> None:
    """Switches it on again, where it was switched off."""
    for module in trainer.keeping:
        module.gradient_checkpointing = True  # pyright: ignore[reportArgumentType]
    trainer.keeping, trainer.keeps_activations = [], False


def nearly_full(device: torch.device) -> bool:
    """Whether less than a tenth of the device's memory has been free at some time."""
    peak, total = peak_memory(device)
    return peak > MOST * total
