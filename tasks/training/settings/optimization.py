"""Checks that the optimizer reads every setting that is given for it.

    optim, lr_scheduler_type           does transformers know the name?    names.py
    optim_args, adam_beta1, ...        does that optimizer read them?      here
    lr_scheduler_kwargs, warmup_steps  does that schedule read them?       schedule.py

Names are checked before any work, the rest before the model is loaded. transformers ignores what an
optimizer or a schedule does not read, so a run would use other numbers than those that were given.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from tasks.errors import ParamsError
from tasks.training.settings.schedule import check_schedule

NOT_OF_ALL = ("adam_beta1", "adam_beta2", "adam_epsilon", "optim_target_modules")
"""Settings that not every optimizer reads."""
WITHOUT_MODEL = "need to pass a"
"""Part of transformers' error for optimizers that can only be made with the model."""
FACTORY_METHODS = ("create_optimizer_and_scheduler", "create_optimizer", "create_scheduler")
"""Methods of Trainer that a subclass may override."""
Factory = Callable[[Any], tuple[Any, Mapping[str, Any]]]
"""TrainingArguments -> class and keyword arguments of the optimizer that they ask for."""


def check_optimization(
    args: Any, trainer: Any, optimizers: tuple[Any, Any], class_and_kwargs: tuple[Any, Any] | None
) -> None:
    """Checks that all settings of optimizer and schedule have an effect; `trainer` is the class.

    Skipped for an optimizer or schedule that is given ready-made, made by an overridden method of
    the trainer, or made by DeepSpeed.

    Raises:
        ParamsError: as `check_makable`, `check_optimizer` and `check_schedule`.
    """
    from transformers import Trainer

    own = {name for name in FACTORY_METHODS if getattr(trainer, name) is not getattr(Trainer, name)}
    if getattr(args, "deepspeed_plugin", None) is not None or FACTORY_METHODS[0] in own:
        return
    optimizer, schedule = optimizers
    optimizer_warms_up = FACTORY_METHODS[1] in own
    if optimizer is None and class_and_kwargs is None and not optimizer_warms_up:
        factory: Factory = trainer.get_optimizer_cls_and_kwargs
        if factory is Trainer.get_optimizer_cls_and_kwargs:
            check_makable(args, factory)
        check_optimizer(args, factory)
        optimizer_warms_up = _reads(factory, args, {"warmup_steps": 0})
    if schedule is None and FACTORY_METHODS[2] not in own:
        lr = (class_and_kwargs[1] if class_and_kwargs else {}).get("lr", args.learning_rate)
        groups = optimizer.param_groups if optimizer else [{"lr": lr}] * 2
        check_schedule(args, groups, optimizer_warms_up=optimizer_warms_up)


def check_makable(args: Any, factory: Factory) -> None:
    """Checks that transformers can make the optimizer; one that needs the model for it passes.

    Raises:
        ParamsError: its package or a setting is missing (quotes transformers), or `optim_args` are
            no names with values.
    """
    given = args.optim_args
    if given and not all(each.count("=") == 1 for each in given.split(",")):
        raise ParamsError(
            f"optim_args is {given!r}; expected name=value, or several with commas between"
        )
    try:
        factory(args)
    except (ImportError, ValueError, TypeError, NotImplementedError) as error:
        if WITHOUT_MODEL in str(error):
            return
        raise ParamsError(
            f"optim {args.optim.value} cannot be made: {str(error).rstrip('.')}; do so, or take "
            "another optim, such as adamw_torch_fused, the default"
        ) from error


def check_optimizer(args: Any, factory: Factory) -> None:
    """Checks that the optimizer reads each setting: another value, or none, must change what
    `factory` returns.

    Raises:
        ParamsError: it ignores a setting that is not at its default.
    """
    defaults = {each.name: each.default for each in fields(args) if each.name in NOT_OF_ALL}
    others: dict[str, list[dict[str, Any]]] = {
        f"{name}={getattr(args, name)}": [{name: default}]
        for name, default in defaults.items()
        if getattr(args, name) != default
    }
    given = _parsed(args.optim_args)
    for name, value in given.items():
        changed = [given | {name: other} for other in (f"{value}1", "true")]
        changed.append({n: v for n, v in given.items() if n != name})
        others[f"{name}={value} (of optim_args)"] = [{"optim_args": _joined(c)} for c in changed]
    unread = [
        name for name, tries in others.items() if not any(_reads(factory, args, o) for o in tries)
    ]
    if unread:
        raise ParamsError(
            f"optim {args.optim.value} does not read {', '.join(unread)}; leave that out, or take "
            "an optimizer that does"
        )


def _reads(factory: Factory, args: Any, others: Mapping[str, Any]) -> bool:
    """Whether `factory` returns something else with `others` set; True if it fails, as then nobody
    can say."""
    changed = copy.copy(args)
    for name, value in others.items():
        setattr(changed, name, value)
    try:
        return bool(factory(changed) != factory(args))
    except Exception:
        return True


def _parsed(text: str | None) -> dict[str, str]:
    """`optim_args`, "name=value,name=value", as a dict."""
    pairs = [each.partition("=") for each in (text or "").replace(" ", "").split(",") if each]
    return {name: value for name, _, value in pairs}


def _joined(optim_args: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in optim_args.items())
