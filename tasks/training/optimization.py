"""The optimizer and the schedule that are asked for, held against what transformers makes of them.

    optim, lr_scheduler_type                  ── names that it knows?          before any work
    optim_args, adam_beta1, ...               ── does that optimizer read it?  before the model
    lr_scheduler_kwargs, warmup_steps         ── does that schedule?           is loaded

transformers passes over what an optimizer or a schedule has no use for, so a run would go on with
other numbers than those that were given.
"""

import ast
import copy
import difflib
import inspect
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tasks.errors import ParamsError

NAMES = {
    "optim": ("training_args.py", "OptimizerNames", {"adamw_torch", "adamw_torch_fused"}),
    "lr_scheduler_type": ("trainer_utils.py", "SchedulerType", {"linear", "cosine"}),
}
"""Settings, where transformers lists what they may be, and what needs no look at that."""
ADAM = {"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8}
"""Settings that not every optimizer reads, and what stands for none."""
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
    if name in usual or name in (known := _names(*place)) or not known:
        return
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ParamsError(f"{setting} is {name!r}; expected one of {', '.join(known)}{hint}")


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


def check_optimizer(args: Any) -> None:
    """Refuses what the optimizer does not read: another value there would make no other optimizer.

    Raises:
        ParamsError: as above.
    """
    given = {name: getattr(args, name) for name in ADAM}
    others = {
        f"{name}={value}": [{name: value / 2}]
        for name, value in given.items()
        if value != ADAM[name]
    }
    further = _further(args.optim_args)
    for name, value in further.items():
        asked = [further | {name: other} for other in (f"{value}1", "true", "false", "x")]
        others[f"{name}={value} (of optim_args)"] = [{"optim_args": _written(a)} for a in asked]
    if not others:
        return
    try:
        usual = _made(args)
    except Exception:  # what it lacks is told where it is made for the model
        return
    unread = [
        name for name, asked in others.items() if all(_same(usual, args, other) for other in asked)
    ]
    if unread:
        name = getattr(args.optim, "value", args.optim)
        raise ParamsError(
            f"optim {name} does not read {', '.join(unread)}; leave that out, or take an optimizer "
            "that does"
        )


def _made(args: Any) -> tuple[Any, Mapping[str, Any]]:
    """The class of the optimizer, and its arguments."""
    from transformers import Trainer

    return Trainer.get_optimizer_cls_and_kwargs(args)


def _same(usual: tuple[Any, Mapping[str, Any]], args: Any, others: Mapping[str, Any]) -> bool:
    """Whether other settings make the same optimizer; not where they are refused."""
    asked = copy.copy(args)
    for name, value in others.items():
        setattr(asked, name, value)
    with suppress(Exception):
        return bool(_made(asked) == usual)
    return False


def check_schedule(args: Any) -> None:
    """Refuses further arguments that the schedule does not take, or lacks, and a warm-up that it
    does not have.

    Raises:
        ParamsError: as above.
    """
    import torch
    from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION, get_scheduler
    from transformers.trainer_utils import SchedulerType

    kind = SchedulerType(args.lr_scheduler_type)
    given = dict(args.lr_scheduler_kwargs or {})
    if kind is SchedulerType.CONSTANT and args.warmup_steps:
        raise ParamsError(
            f"lr_scheduler_type constant has no warm-up, but warmup_steps is {args.warmup_steps:g};"
            " take constant_with_warmup, or leave warmup_steps out"
        )
    takes = inspect.signature(TYPE_TO_SCHEDULER_FUNCTION[kind]).parameters.values()
    own = [each.name for each in takes if each.name not in OF_ALL]
    unread = [n for n in given if n not in own and not any(p.kind is p.VAR_KEYWORD for p in takes)]
    wrong = f"{unread[0]} is none of them" if unread else ""
    try:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=args.learning_rate)
        get_scheduler(kind, optimizer, 1, 100, given)
    except (TypeError, ValueError) as error:
        wrong = wrong or str(error)
    if wrong:
        raise ParamsError(
            f"lr_scheduler_type {kind.value} cannot be made with lr_scheduler_kwargs {given}: "
            f"{wrong}; its arguments are: {', '.join(own) or 'none'}"
        )


def _further(text: str | None) -> dict[str, str]:
    """`optim_args` by name."""
    pairs = [each.partition("=") for each in (text or "").replace(" ", "").split(",") if each]
    return {name: value for name, _, value in pairs}


def _written(further: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in further.items())
