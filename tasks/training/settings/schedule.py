"""Checks that the learning rate schedule reads every setting that is given for it."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.errors import ParamsError

COMMON_ARGUMENTS = frozenset({"optimizer", "num_warmup_steps", "num_training_steps", "last_epoch"})
"""Arguments that every schedule gets from Trainer, not from `lr_scheduler_kwargs`."""


def check_schedule(
    args: Any, groups: Sequence[Mapping[str, Any]], *, optimizer_warms_up: bool
) -> None:
    """Checks `lr_scheduler_kwargs` and `warmup_steps` by making the schedule.

    `groups`: the optimizer's parameter groups, of which `lr` is read. `optimizer_warms_up`: whether
    the optimizer may have a warm-up of its own.

    Raises:
        ParamsError: the schedule lacks an argument or does not take one, or a warm-up is set that
            neither schedule nor optimizer has.
    """
    import torch
    from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION, get_scheduler
    from transformers.trainer_utils import SchedulerType

    kind = SchedulerType(args.lr_scheduler_type)
    kwargs = dict(args.lr_scheduler_kwargs or {})
    parameters = inspect.signature(TYPE_TO_SCHEDULER_FUNCTION[kind]).parameters
    if args.warmup_steps and "num_warmup_steps" not in parameters and not optimizer_warms_up:
        raise ParamsError(
            f"lr_scheduler_type {kind.value} has no warm-up, but warmup_steps is "
            f"{args.warmup_steps:g}; leave that out, or take a schedule that has one, such as "
            "constant_with_warmup"
        )
    own = [name for name in parameters if name not in COMMON_ARGUMENTS]
    unread = [name for name in kwargs if name not in own]
    wrong = f"{unread[0]} is none of them" if unread and "kwargs" not in own else ""
    try:
        parts = [{"params": [torch.zeros(1)], "lr": group["lr"]} for group in groups]
        get_scheduler(kind, torch.optim.SGD(parts, lr=groups[0]["lr"]), 1, 100, kwargs)
    except (TypeError, ValueError) as error:
        wrong = wrong or str(error)
    if wrong:
        listed = ", ".join(own).replace("kwargs", "those of torch's") or "none"
        raise ParamsError(
            f"lr_scheduler_type {kind.value} cannot be made with lr_scheduler_kwargs {kwargs}: "
            f"{wrong}; its arguments are: {listed}"
        )


def check_warm_up(args: Any, steps: int) -> None:
    """Refuses a polynomial schedule without a step after its warm-up: transformers would divide by
    that number of steps at the last step.

    Raises:
        ParamsError: the warm-up takes all `steps`.
    """
    warm_up = args.get_warmup_steps(steps)
    if args.lr_scheduler_type == "polynomial" and warm_up == steps:
        raise ParamsError(
            f"lr_scheduler_type polynomial has no step left to decay in: warmup_steps "
            f"{args.warmup_steps:g} is {warm_up} of {steps} steps; lower it, or take "
            "constant_with_warmup"
        )
