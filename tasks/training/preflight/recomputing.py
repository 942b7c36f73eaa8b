"""Gradient checkpointing that the user did not set (None): off where the device has room.

    longest batch without checkpointing    leaves a tenth of the memory free    off: faster
                                           does not                             on

The results are the same; with checkpointing activations are computed twice, which adds a third to
a step's work. The arguments are left as given: they are part of a checkpoint's identity, and the
next run decides anew.
"""

from typing import TYPE_CHECKING

import torch

from tasks.training.model.adapter import base_of
from tasks.training.preflight.forecast import peak_memory

if TYPE_CHECKING:
    from tasks.training.preflight.out_of_memory import MemoryAdaptiveTrainer
    from tasks.training.trainer import RewardTrainer

MOST = 0.9
"""Share of the device's memory that the longest batch may take without checkpointing."""


def keep_activations(trainer: "RewardTrainer") -> None:
    """Switches gradient checkpointing off in every module of the model."""
    model = base_of(trainer.accelerator.unwrap_model(trainer.model))
    found = [m for m in model.modules() if getattr(m, "gradient_checkpointing", False)]
    for module in found:
        module.gradient_checkpointing = False  # pyright: ignore[reportArgumentType]
    trainer.keeping, trainer.keeps_activations = found, True


def recompute_activations(trainer: "MemoryAdaptiveTrainer") -> None:
    """Switches gradient checkpointing on again in the modules in which it was switched off."""
    for module in trainer.keeping:
        module.gradient_checkpointing = True  # pyright: ignore[reportArgumentType]
    trainer.keeping, trainer.keeps_activations = [], False


def nearly_full(device: torch.device) -> bool:
    """Whether peak memory since `forget_peak` left less than a tenth of the device's free."""
    peak, total = peak_memory(device)
    return peak > MOST * total
