"""Attention over all blocks of a flat row in one variable-length call, on a GPU in half precision.

    queries     p p p a a | b b         the flat row
    keys        p p p a a | p p p b b   gathered: the prompt's rows again for every further block,
                |___________|           so a row of the prompt has a gradient from each of its uses

The causal mask of a block is aligned at its lower right: the last query of b sees all keys of its
block, and the first one the prompt and itself.

Legend: T rows, Tk gathered rows, Hq query heads, Hkv key heads, D size of a head.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch.nn.attention import varlen

from tasks.training.layout.on_device import Layout

LARGEST_HEAD = 256
"""Largest size of a head that the kernels take."""

varlen_attn: Callable[..., Any] = varlen.varlen_attn
HAS_ENABLE_GQA = "enable_gqa" in signature(varlen_attn).parameters
"""Whether fewer key heads than query heads must be declared; torch 2.11 has no such argument."""


def has_varlen(device: torch.device) -> bool:
    """Whether the variable-length call runs on this device: its kernels need Ampere or newer."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def fits_varlen(query: torch.Tensor) -> bool:
    """Whether the kernels of the variable-length call take heads of this size."""
    return query.shape[-1] % 8 == 0 and query.shape[-1] <= LARGEST_HEAD


def ragged_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: Layout,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    """Attention output `[T, Hq, D]` of `query [T, Hq, D]`, `key`, `value [T, Hkv, D]`, all in half
    precision; the layout is from `varlen_layout`."""
    gathered = layout.keys, layout.uses, layout.further_uses
    key, value = (_Gathered.apply(x, *gathered) for x in (key, value))
    # (W, 0): W keys before the query and none after it; transformers' window counts the query too
    options: dict[str, Any] = {"window_size": (-1 if window is None else window - 1, 0)}
    if HAS_ENABLE_GQA:
        options["enable_gqa"] = query.shape[1] != key.shape[1]
    blocks = layout.query_starts, layout.key_starts, layout.most_queries, layout.most_keys
    return varlen_attn(query, key, value, *blocks, scale=scaling, **options)


class _Gathered(torch.autograd.Function):
    """Rows `[Tk, H, D]` of `rows [T, H, D]` at `keys`; a row's gradient is the sum over its uses.

    The first two uses, which are all that a pair has, are gathered. `index_add`, which torch would
    use and which further uses need, took 8% of the kernel time of a step on an H200.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        keys: torch.Tensor,
        uses: torch.Tensor,
        further_uses: torch.Tensor,
    ) -> torch.Tensor:
        ctx.save_for_backward(uses, further_uses)
        return rows.index_select(0, keys)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (gradient,), (uses, (rows, places)) = gradients, ctx.saved_tensors
        total = gradient.index_select(0, uses[0])
        for use in uses[1:]:
            further = gradient.index_select(0, use.clamp(min=0))
            total = torch.addcmul(total, further, (use >= 0).to(further.dtype)[:, None, None])
        if len(rows):
            total = total.index_add(0, rows, gradient.index_select(0, places))
        return total, None, None, None
