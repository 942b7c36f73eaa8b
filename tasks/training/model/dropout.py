"""Where a model keeps the probabilities of its dropout, and how they are set to 0.

nn.Dropout             p                        most families; adapters
other modules          self.attention_dropout   attention, as a number
the model's config     config.hidden_dropout    Falcon, Persimmon: read in every forward pass
"""

import re
from collections.abc import Iterator
from functools import cache
from inspect import getsource
from typing import Any

from torch import nn


def disable_dropout(model: nn.Module) -> None:
    """Sets every dropout probability to 0, those of adapters too; the config keeps what it says,
    unless the model reads it there in every forward pass."""
    for holder, name in [*_dropouts(model)]:
        setattr(holder, name, 0.0)


def has_dropout(model: nn.Module) -> bool:
    """Whether anything is dropped in training."""
    return any(getattr(holder, name) > 0 for holder, name in _dropouts(model))


def _dropouts(model: nn.Module) -> Iterator[tuple[Any, str]]:
    """Holder and name of every attribute that is a probability of dropout."""
    for module in model.modules():
        own = vars(module)
        if isinstance(module, nn.Dropout):
            yield module, "p"
        yield from ((module, n) for n in own if "dropout" in n and isinstance(own[n], float))
        if config := own.get("config"):
            read = _read_of_config(type(module))
            yield from ((config, n) for n in read if isinstance(getattr(config, n, None), float))


@cache
def _read_of_config(kind: type[nn.Module]) -> list[str]:
    """The probabilities that modules of a class read in the config, by the source of `forward`."""
    try:
        return re.findall(r"self\.config\.(\w*dropout\w*)", getsource(kind.forward))
    except (OSError, TypeError):  # typed in by hand, or compiled
        return []
