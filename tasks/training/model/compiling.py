"""torch.compile of a model's layers, each by itself, for rows of any length.

    embeddings | layer | layer | ... | last layer | head
    as they are  one graph for all of them, made once for every length; what calls our attention
                 (layout/attention.py) is fused up to that call and from there on

Compiled whole, a model is compiled anew where its code cannot be followed, and takes minutes. The
last layer stays as it is where it computes pooled rows alone (layout/pruning.py).
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from transformers import TrainingArguments

from tasks.training.layout.pruning import pruned_layer
from tasks.training.model.elementwise import use_usual_passes
from tasks.training.process.engines import engine_within_layers

logger = logging.getLogger(__name__)

GRAPHS = 32
"""Graphs that one piece of code may have in a process, for models of several sizes."""
_COMPILED = "_compiled_call_impl"
"""Where torch keeps what `Module.compile` made."""
_OURS = "_compiled_for_a_trainer"


def compile_layers(body: nn.Module, args: TrainingArguments, accelerator: Accelerator) -> None:
    """Has the layers of a body compiled on their next call, if `args` asks for it.

    Where no layer can be compiled, a warning says why.
    """
    backend = _backend(args)
    if not args.torch_compile or backend == "no":
        return
    if engine := engine_within_layers(accelerator):
        logger.warning(
            "torch_compile changes nothing: %s; layers that are sharded by FSDP2 "
            "(params/accelerate/fsdp2.yaml) are compiled",
            engine,
        )
        return
    settings: Any = torch._dynamo.config  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    settings.recompile_limit = max(settings.recompile_limit, GRAPHS)
    layers = [layer for layer in _layers(body) if layer is not pruned_layer(body)]
    for layer in layers:
        use_usual_passes(layer)
        layer.compile(dynamic=True, backend=backend, mode=args.torch_compile_mode)
        setattr(layer, _OURS, True)
    if not layers:
        logger.warning(
            "torch_compile changes nothing: %s has no list of layers", type(body).__name__
        )


def uncompile_layers(body: nn.Module) -> None:
    """Has layers that an earlier trainer compiled run as they are written."""
    for module in body.modules():
        if vars(module).pop(_OURS, False):
            setattr(module, _COMPILED, None)


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


def _backend(args: TrainingArguments) -> Any:
    return str(args.torch_compile_backend or "inductor").lower()


def _layers(body: nn.Module) -> list[nn.Module]:
    """The layers of a body: the modules of its outermost lists that hold no lists themselves."""
    layers: list[nn.Module] = []
    for child in body.children():
        lists = [isinstance(inner, nn.ModuleList) for inner in child.children()]
        if isinstance(child, nn.ModuleList) and not any(lists):
            layers += child
        else:
            layers += _layers(child)
    return layers
