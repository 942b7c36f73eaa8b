"""torch.compile of a model's layers, each by itself, for rows of any length.

    embeddings | layer | layer | ... | last layer | head
    as they are  one graph for all of them, made once for every length; what calls our attention
                 (layout/attention.py) is fused up to that call and from there on

Compiled whole, a model is compiled anew where its code cannot be followed, and takes minutes. The
last layer stays as it is where it computes pooled rows alone (layout/pruning.py).
"""

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import TrainingArguments

from tasks.training.layout.pruning import pruned_layer

logger = logging.getLogger(__name__)

BY_ENGINE = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
"""What a launcher sets where an engine wraps the model, whose hooks a compiled layer is not tried
with."""
_COMPILED = "_compiled_call_impl"
"""Where torch keeps what `Module.compile` made."""


def compiles_layers(args: TrainingArguments) -> bool:
    """Whether the layers are to be compiled; an engine's shards are left to accelerate."""
    launched = any(os.environ.get(name, "").lower() in ("1", "true") for name in BY_ENGINE)
    return bool(args.torch_compile) and not (launched or args.fsdp or args.deepspeed)


def compile_layers(body: nn.Module, args: TrainingArguments) -> None:
    """Compiles the layers of a body on their next call; the log says where there are none."""
    backend: Any = args.torch_compile_backend or "inductor"
    layers = [layer for layer in _layers(body) if layer is not pruned_layer(body)]
    for layer in layers:
        layer.compile(dynamic=True, backend=backend, mode=args.torch_compile_mode)
    if not layers:
        logger.warning(
            "torch_compile changes nothing: %s has no list of layers", type(body).__name__
        )


@contextmanager
def as_written(model: nn.Module) -> Generator[None, None, None]:
    """Inside, no module runs compiled: kernels that are fused round otherwise."""
    kept = [(m, call) for m in model.modules() if (call := getattr(m, _COMPILED, None))]
    for module, _ in kept:
        setattr(module, _COMPILED, None)
    try:
        yield
    finally:
        for module, call in kept:
            setattr(module, _COMPILED, call)


def _layers(body: nn.Module) -> list[nn.Module]:
    """Of the lists of modules in a body, those that are in no other: its layers."""
    found: list[nn.Module] = []
    for child in body.children():
        found += [*child] if isinstance(child, nn.ModuleList) else _layers(child)
    return found
