"""The names of optimizers and schedules, as transformers lists them in its source.

To import it takes seconds, which a run that finds all stages cached does not spend.
"""

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tasks.errors import ParamsError, meant

NAMES = {
    "optim": ("training_args.py", "OptimizerNames", {"adamw_torch", "adamw_torch_fused"}),
    "lr_scheduler_type": ("trainer_utils.py", "SchedulerType", {"linear", "cosine"}),
}
"""Settings, where transformers lists what they may be, and what needs no look at that."""


def check_name(setting: str, name: str) -> None:
    """Checks the name of an optimizer or a schedule, the value of `setting`.

    Raises:
        ParamsError: transformers does not know it.
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
    """The values of an Enum in a source file of transformers; empty if it is not found."""
    package = find_spec("transformers")
    source = Path(package.origin).with_name(file) if package and package.origin else None
    if source is None or not source.is_file():
        return []
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == enumeration:
            values = [each.value for each in node.body if isinstance(each, ast.Assign)]
            return [str(v.value) for v in values if isinstance(v, ast.Constant)]
    return []
