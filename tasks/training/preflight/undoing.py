"""Undoes the preflight's trial step: weights, optimizer, metrics and RNG states, bit for bit."""

import contextlib
import copy
import random
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from tasks.training.guard import FiniteGuard
from tasks.training.metrics.interval import IntervalSums
from tasks.training.preflight.out_of_memory import random_state, set_random_state

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer


@contextlib.contextmanager
def put_back(
    trainer: "RewardTrainer", model: nn.Module
) -> Generator[Callable[[], None], None, None]:
    """Yields a function that undoes all steps taken inside the block; leaving it does so, too.

    Copies are kept on the CPU, since the device may have no room for them.
    """
    optimizer: Any = trainer.optimizer
    changing = [p for p in model.parameters() if p.requires_grad] + list(model.buffers())
    changing += [t for s in optimizer.state.values() for t in s.values() if torch.is_tensor(t)]
    before = [tensor.detach().to("cpu", copy=True) for tensor in changing]
    states = {parameter: dict(state) for parameter, state in optimizer.state.items()}
    groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    groups = copy.deepcopy(groups)
    scaler: Any = getattr(trainer.accelerator, "scaler", None)
    scale = copy.deepcopy(scaler.state_dict()) if scaler is not None else None

    def undo() -> None:
        with torch.no_grad():
            for tensor, value in zip(changing, before, strict=True):
                tensor.copy_(value)
        model.zero_grad()
        optimizer.state.clear()
        optimizer.state.update({parameter: dict(state) for parameter, state in states.items()})
        for group, values in zip(optimizer.param_groups, groups, strict=True):
            group.update(values)
        if scaler is not None:
            scaler.load_state_dict(scale)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    interval, guard = trainer.interval, trainer.guard
    trainer.interval = IntervalSums(trainer.args.device)
    trainer.guard = FiniteGuard(trainer.args.device)
    try:
        yield undo
    finally:
        trainer.interval, trainer.guard = interval, guard
        undo()


@contextlib.contextmanager
def random_states_kept() -> Generator[None, None, None]:
    """Restores the RNG states of torch, Python and numpy after the block."""
    ours, pythons, numpys = random_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        set_random_state(ours)
        random.setstate(pythons)
        np.random.set_state(numpys)
