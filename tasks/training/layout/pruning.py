"""The last decoder layer computes its MLP for the rows that a reward is read at, and no others.

    last layer      p p p p a a a b b       p: prompt, a b: two answers
    its attention   p p p p a a a b b       all T rows, since each may look at any before it
    its MLP                     a   b       A rows: where the rewards are read
    its output      0 0 0 0 0 0 a 0 b       plus what goes around the MLP

Of the last layer's output only the pooled rows are used, so its MLP (most of the layer) runs on A
rows instead of T; the others get zeros in its place. Hooks do it, since the layer's own code is not
ours to change. The rows come with the call of the layer's attention, as the keyword `layout`:
inside what gradient checkpointing runs a second time, so they are right again then.
"""

from typing import Any

import torch
from torch import nn

_PRUNED = "_computes_pooled_rows_only"


def prune_last_layer(body: nn.Module) -> bool:
    """Puts the hooks on a decoder's body, once; False where the last layer is not built so."""
    if getattr(body, _PRUNED, False):
        return True
    layer = _last_layer(body)
    attention = getattr(layer, "self_attn", None) or getattr(layer, "attn", None)
    mlp = getattr(layer, "mlp", None)
    if not (isinstance(attention, nn.Module) and isinstance(mlp, nn.Module)):
        return False
    rows = _PooledRows()
    attention.register_forward_pre_hook(rows.enter, with_kwargs=True)
    mlp.register_forward_pre_hook(rows.take)
    mlp.register_forward_hook(rows.put_back)
    setattr(body, _PRUNED, True)
    return True


def _last_layer(body: nn.Module) -> nn.Module | None:
    for name in ("layers", "h"):
        layers = getattr(body, name, None)
        if isinstance(layers, nn.ModuleList) and len(layers):
            return layers[-1]
    return None


class _PooledRows:
    """The rows of the call that is under way; None for padded batches."""

    def __init__(self) -> None:
        self.rows: torch.Tensor | None = None
        self.all = 0

    def enter(self, _attention: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        layout = kwargs.get("layout")
        self.rows = None if layout is None else layout.last

    def take(self, _mlp: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self.rows is None:
            return None
        self.all = args[0].shape[1]
        return (args[0].index_select(1, self.rows), *args[1:])

    def put_back(self, _mlp: nn.Module, _args: Any, output: Any) -> Any:
        if self.rows is None:
            return None
        if not isinstance(output, torch.Tensor):
            raise NotImplementedError("the last layer's mlp returns more than one tensor")
        zeros = output.new_zeros(1, self.all, output.shape[-1])
        return zeros.index_copy(1, self.rows, output)
