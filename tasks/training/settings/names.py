"""The names of optimizers and schedules, read from transformers' source without importing it.

The import takes seconds, too long for a run that finds all stages cached.
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
"""Setting -> file and Enum that list its values, and usual values that are not looked up."""


def check_name(setting: str, name: str | None) -> None:
    """Checks the name of an optimizer or a schedule, the value of `setting`.

    Raises:
        ParamsError: transformers does not know it.
    """
    file, enumeration, usual = NAMES[setting.rpartition(".")[2]]
    name = getattr(name, "value", name)
    if name in usual or name in (known := _names(file, enumeration)) or not known:
        return
    raise ParamsError(
        f"{setting} is {name!r}; expected one of {', '.join(known)}{meant(str(name), known, str)}"
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
