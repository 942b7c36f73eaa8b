"""The optimizer and the schedule that are asked for, held against what transformers makes of them.

    optim, lr_scheduler_type                  ── names that it knows?          before any work
    optim_args, adam_beta1, ...               ── does that optimizer read it?  before the model
    lr_scheduler_kwargs, warmup_steps         ── does that schedule?           is loaded

transformers passes over what an optimizer or a schedule has no use for, so a run would go on with
other numbers than those that were given.
"""

import ast
import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tasks.errors import ParamsError, meant

NAMES = {
    "optim": ("training_args.py", "OptimizerNames", {"adamw_torch", "adamw_torch_fused"}),
    "lr_scheduler_type": ("trainer_utils.py", "SchedulerType", {"linear", "cosine"}),
}
"""Settings, where transformers lists what they may be, and what needs no look at that."""
ADAM = ("adam_beta1", "adam_beta2", "adam_epsilon")
"""Settings that not every optimizer reads."""
WITHOUT_MODEL = "need to pass a"
"""What transformers says of optimizers that are made for the model alone."""
MAKERS = ("create_optimizer_and_scheduler", "create_optimizer", "create_scheduler")
"""Methods of Trainer that a trainer may have of its own."""
Made = Callable[[Any], tuple[Any, Mapping[str, Any]]]
"""The class of the optimizer that settings ask for, and its arguments."""
OF_ALL = frozenset({"optimizer", "num_warmup_steps", "num_training_steps", "last_epoch"})
"""What a schedule is given whatever `lr_scheduler_kwargs` says."""


def check_name(setting: str, name: str) -> None:
    """Refuses an optimizer or a schedule that transformers does not know.

    Its names are read from its source: to import it takes seconds, which a run that finds all
    stages cached does not.

    Raises:
        ParamsError: as above.
    """
    *place, usual = NAMES[setting.rpartition(".")[2]]
    name = getattr(name, "value", name)
    if name in usual or name in (known := _names(*place)) or not known:
        return
    raise ParamsError(
        f"{setting} is {name!r}; expected one of {', '.join(known)}{meant(name, known, str)}"
    )


@cache
def _names(file: str, enumeration: str) -> list[str]:
    """The values of an enumeration of transformers; none where it is not to be found."""
    package = find_spec("transformers")
    source = Path(package.origin).with_name(file) if package and package.origin else None
    if source is None or not source.is_file():
        return []
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == enumeration:
            values = [each.value for each in node.body if isinstance(each, ast.Assign)]
            return [str(v.value) for v in values if isinstance(v, ast.Constant)]
    return []


def check_optimization(
    args: Any, trainer: Any, optimizers: tuple[Any, Any], class_and_kwargs: tuple[Any, Any] | None
) -> None:
    """Holds the settings of optimizer and schedule against those that a trainer (its class) will
    make of them: not where it is given them, makes them in its own way, or has DeepSpeed make them.

    Raises:
        ParamsError: as `check_makable`, `check_optimizer` and `check_schedule`.
    """
    from transformers import Trainer

    own = {name for name in MAKERS if getattr(trainer, name) is not getattr(Trainer, name)}
    if getattr(args, "deepspeed_plugin", None) is not None or MAKERS[0] in own:
        return
    optimizer, schedule = optimizers
    warms = MAKERS[1] in own
    if optimizer is None and class_and_kwargs is None and not warms:
        made: Made = trainer.get_optimizer_cls_and_kwargs
        if made is Trainer.get_optimizer_cls_and_kwargs:
            check_makable(args, made)
        check_optimizer(args, made)
        warms = _reads(made, args, {"warmup_steps": 0})
    if schedule is None and MAKERS[2] not in own:
        lr = (class_and_kwargs[1] if class_and_kwargs else {}).get("lr", args.learning_rate)
        check_schedule(args, optimizer.param_groups if optimizer else [{"lr": lr}] * 2, warms=warms)


def check_makable(args: Any, made: Made) -> None:
    """Refuses an optimizer whose package is absent, or that lacks a setting; what transformers asks
    the model for is asked where the model is.

    Raises:
        ParamsError: as above, in the words of transformers.
    """
    try:
        made(args)
    except (ImportError, ValueError, TypeError, NotImplementedError) as error:
        if WITHOUT_MODEL in str(error):
            return
        raise ParamsError(
            f"optim {args.optim.value} cannot be made: {str(error).rstrip('.')}; do so, or take "
            "another optim, such as adamw_torch_fused, the default"
        ) from error


def check_optimizer(args: Any, made: Made) -> None:
    """Refuses what the optimizer does not read: another value there, or none, would make no other
    optimizer.

    Raises:
        ParamsError: as above.
    """
    usual = {each.name: each.default for each in fields(args) if each.name in ADAM}
    others: dict[str, list[dict[str, Any]]] = {
        f"{name}={getattr(args, name)}": [{name: default}]
        for name, default in usual.items()
        if getattr(args, name) != default
    }
    further = _further(args.optim_args)
    for name, value in further.items():
        asked = [further | {name: other} for other in (f"{value}1", "true")]
        asked.append({n: v for n, v in further.items() if n != name})
        others[f"{name}={value} (of optim_args)"] = [{"optim_args": _written(a)} for a in asked]
    unread = [
        name for name, asked in others.items() if not any(_reads(made, args, o) for o in asked)
    ]
    if unread:
        raise ParamsError(
            f"optim {args.optim.value} does not read {', '.join(unread)}; leave that out, or take "
            "an optimizer that does"
        )


def _reads(made: Made, args: Any, others: Mapping[str, Any]) -> bool:
    """Whether other settings make another optimizer; so, too, where one cannot be made without the
    model, or with the other settings."""
    asked = copy.copy(args)
    for name, value in others.items():
        setattr(asked, name, value)
    try:
        return bool(made(asked) != made(args))
    except Exception:
        return True


def check_schedule(args: Any, groups: Sequence[Mapping[str, Any]], *, warms: bool) -> None:
    """Refuses further arguments that the schedule does not take, or lacks, and a warm-up that
    neither it nor the optimizer has. `groups` are those of the optimizer, of which `lr` is read;
    `warms`: it may have a warm-up of its own.

    Raises:
        ParamsError: as above.
    """
    import torch
    from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION, get_scheduler
    from transformers.trainer_utils import SchedulerType

    kind = SchedulerType(args.lr_scheduler_type)
    given = dict(args.lr_scheduler_kwargs or {})
    takes = inspect.signature(TYPE_TO_SCHEDULER_FUNCTION[kind]).parameters
    if args.warmup_steps and "num_warmup_steps" not in takes and not warms:
        raise ParamsError(
            f"lr_scheduler_type {kind.value} has no warm-up, but warmup_steps is "
            f"{args.warmup_steps:g}; leave that out, or take a schedule that has one, such as "
            "constant_with_warmup"
        )
    own = [name for name in takes if name not in OF_ALL]
    unread = [name for name in given if name not in own]
    wrong = f"{unread[0]} is none of them" if unread and "kwargs" not in own else ""
    try:
        parts = [{"params": [torch.zeros(1)], "lr": group["lr"]} for group in groups]
        get_scheduler(kind, torch.optim.SGD(parts, lr=groups[0]["lr"]), 1, 100, given)
    except (TypeError, ValueError) as error:
        wrong = wrong or str(error)
    if wrong:
        listed = ", ".join(own).replace("kwargs", "those of torch's") or "none"
        raise ParamsError(
            f"lr_scheduler_type {kind.value} cannot be made with lr_scheduler_kwargs {given}: "
            f"{wrong}; its arguments are: {listed}"
        )


def check_warm_up(args: Any, steps: int) -> None:
    """Refuses a warm-up that ends with the run where the schedule then divides by the steps behind
    it, which are none: after the last step.

    Raises:
        ParamsError: as above.
    """
    warm_up = args.get_warmup_steps(steps)
    if args.lr_scheduler_type == "polynomial" and warm_up == steps:
        raise ParamsError(
            f"lr_scheduler_type polynomial has no step left to decay in: warmup_steps "
            f"{args.warmup_steps:g} is {warm_up} of {steps} steps; lower it, or take "
            "constant_with_warmup"
        )


def _further(text: str | None) -> dict[str, str]:
    """`optim_args` by name."""
    pairs = [each.partition("=") for each in (text or "").replace(" ", "").split(",") if each]
    return {name: value for name, _, value in pairs}


def _written(further: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in further.items())
