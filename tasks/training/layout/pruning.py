"""Prunes the last decoder layer: only rows that rewards are read at are computed in full, of the
others only keys and values.

    last layer          p p p p a a a b b       p: prompt, a b: two answers
    its keys, values    p p p p a a a b b       all T rows, since each answer looks at all before it
    its queries                     a   b       A rows: where the rewards are read
    its attention                   a   b       A rows (on a CPU)
    its output, MLP                 a   b       A rows
    their outputs       1 1 1 1 1 1 a 1 b       plus the residual connection

Only the pooled rows of the last layer's output are used, so most of the layer runs on A rows
instead of T. The other rows are filled with ones, which are safe in any norm. Hooks do this, as
the layer is transformers' code. They read the rows from the keyword `layout` of the call of the
layer's attention, which gradient checkpointing repeats, so the rows are right then, too.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from tasks.training.layout.on_device import Layout

ATTENTIONS = ("self_attn", "attn", "attention")
"""Names of a layer's attention in the families of transformers."""
PROJECTIONS = ("q_proj", "o_proj")
"""Projections of an attention whose other rows are not used."""
_HOOKS = "_hooks_for_pooled_rows"


def prune_last_layer(body: nn.Module) -> bool:
    """Puts the hooks on a decoder's body, once; False if its last layer has another structure."""
    if hasattr(body, _HOOKS):
        return True
    layer = _last_layer(body)
    named = (getattr(layer, name, None) for name in ATTENTIONS)
    attention = next((module for module in named if module is not None), None)
    mlp = getattr(layer, "mlp", None)
    if not (isinstance(attention, nn.Module) and isinstance(mlp, nn.Module)):
        return False
    rows = _PooledRows()
    hooks = [attention.register_forward_pre_hook(rows.enter, with_kwargs=True)]
    projections = (getattr(attention, name, None) for name in PROJECTIONS)
    for module in (*projections, mlp):
        if isinstance(module, nn.Module):
            hooks.append(module.register_forward_pre_hook(rows.take))
            hooks.append(module.register_forward_hook(rows.put_back))
    hooks.append(mlp.register_forward_hook(rows.leave))
    setattr(body, _HOOKS, hooks)
    return True


def restore_last_layer(body: nn.Module) -> None:
    """Removes the hooks, so that the last layer computes all of its rows."""
    for hook in vars(body).pop(_HOOKS, ()):
        hook.remove()


def pruned_layer(body: nn.Module) -> nn.Module | None:
    """The layer that has the hooks, if any."""
    return _last_layer(body) if hasattr(body, _HOOKS) else None


def _last_layer(body: nn.Module) -> nn.Module | None:
    for name in ("layers", "h"):
        layers = getattr(body, name, None)
        if isinstance(layers, nn.ModuleList) and len(layers):
            return layers[-1]
    return None


class _PooledRows:
    """The pooled rows of the current forward pass; None for padded batches."""

    def __init__(self) -> None:
        self.rows: torch.Tensor | None = None
        self.all = 0

    def enter(
        self, _attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        layout: Layout | None = kwargs.get("layout")
        self.rows = None if layout is None else layout.last
        if layout is None:
            return None
        return args, {**kwargs, "layout": replace(layout, pooled=True)}

    def take(self, _module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self.rows is None:
            return None
        self.all = args[0].shape[1]
        return (args[0].index_select(1, self.rows), *args[1:])

    def put_back(self, _module: nn.Module, _args: Any, output: Any) -> Any:
        if self.rows is None:
            return None
        ones = output.new_ones(1, self.all, output.shape[-1])
        return ones.index_copy(1, self.rows, output)

    def leave(self, _mlp: nn.Module, _args: Any, _output: Any) -> None:
        """Forgets the rows at the layer's end, so that a part of it called alone computes all."""
        self.rows = None
