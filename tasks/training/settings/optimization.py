"""The optimizer and the schedule that are asked for, held against what transformers makes of them.

    optim, lr_scheduler_type           ── names that it knows?          names.py: before any work
    optim_args, adam_beta1, ...        ── does that optimizer read it?  here: before the model
    lr_scheduler_kwargs, warmup_steps  ── does that schedule?           schedule.py: is loaded

transformers passes over what an optimizer or a schedule has no use for, so a run would go on with
other numbers than those that were given.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from tasks.errors import ParamsError
from tasks.training.settings.schedule import check_schedule

ADAM = ("adam_beta1", "adam_beta2", "adam_epsilon")
"""Settings that not every optimizer reads."""
WITHOUT_MODEL = "need to pass a"
"""Part of transformers' error for optimizers that can only be made with the model."""
MAKERS = ("create_optimizer_and_scheduler", "create_optimizer", "create_scheduler")
"""Methods of Trainer that a subclass may override."""
Made = Callable[[Any], tuple[Any, Mapping[str, Any]]]
"""TrainingArguments -> class and keyword arguments of the optimizer that they ask for."""


def check_optimization(
    args: Any, trainer: Any, optimizers: tuple[Any, Any], class_and_kwargs: tuple[Any, Any] | None
) -> None:
    """Checks that all settings of optimizer and schedule will have an effect. `trainer` is a class.

    Skipped for an optimizer or schedule that is given ready-made, made by an overridden method of
    the trainer, or made by DeepSpeed.

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
    """Checks that transformers can make the optimizer; one that needs the model for it passes.

    Raises:
        ParamsError: its package or a setting is missing; quotes transformers.
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
    """Checks that the optimizer reads each setting: with another value there, or none,
    `made` must return something else.

    Raises:
        ParamsError: it ignores a setting that is not at its default.
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
    """Whether `made` returns something else with `others` set; True if it fails, since then it
    cannot be told."""
    asked = copy.copy(args)
    for name, value in others.items():
        setattr(asked, name, value)
    try:
        return bool(made(asked) != made(args))
    except Exception:
        return True


def _further(text: str | None) -> dict[str, str]:
    """`optim_args`, "name=value,name=value", as a dict."""
    pairs = [each.partition("=") for each in (text or "").replace(" ", "").split(",") if each]
    return {name: value for name, _, value in pairs}


def _written(further: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in further.items())
