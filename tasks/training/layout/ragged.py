"""All blocks of a flat row in one variable-length call of a GPU, in half precision.

    queries     p p p a a | b b         the flat rows as they lie
    keys        p p p a a | p p p b b   gathered: every block of queries has its prompt's rows again
                |___________|           so a row of the prompt has a gradient from each of its uses

The call aligns the causal mask of a block at its lower right, so that the last query of b sees all
of its keys, and the first one the prompt and itself.

Legend: T rows, Tk gathered rows, Hq query heads, Hkv key heads, D size of a head.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch

from tasks.training.layout.on_device import Layout

LARGEST_HEAD = 256
"""Numbers of one head that the kernels take."""

try:
    from torch.nn.attention.varlen import varlen_attn as _varlen_attn
except ImportError:  # pragma: no cover
    _varlen_attn = None
varlen_attn: Callable[..., Any] | None = _varlen_attn
WANTS_GQA_TOLD = _varlen_attn is not None and "enable_gqa" in signature(_varlen_attn).parameters
"""Whether it has to be told of fewer key heads than query heads: torch 2.11's has not."""


def has_varlen(device: torch.device) -> bool:
    """Whether the variable-length call runs there: its kernels are for GPUs from Ampere on."""
    if device.type != "cuda" or varlen_attn is None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def fits_varlen(query: torch.Tensor) -> bool:
    """Whether the kernels of the variable-length call are made for heads of this size."""
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
    precision, under a layout for this call."""
    assert varlen_attn is not None
    gathered = layout.keys, layout.uses, layout.further_uses
    key, value = (_Gathered.apply(x, *gathered) for x in (key, value))
    # Causal is a window that ends at the query; transformers' window W holds the query itself.
    options: dict[str, Any] = {"window_size": (-1 if window is None else window - 1, 0)}
    if WANTS_GQA_TOLD:
        options["enable_gqa"] = query.shape[1] != key.shape[1]
    blocks = layout.query_starts, layout.key_starts, layout.most_queries, layout.most_keys
    return varlen_attn(query, key, value, *blocks, scale=scaling, **options)


class _Gathered(torch.autograd.Function):
    """Rows `[Tk, H, D]` of `rows [T, H, D]` at `keys`; a row's gradient is the sum over its uses.

    The first two of them, all that a pair has, are read row by row. Adding to rows at an index, as
    torch would and as is done for further ones, was 8% of the kernels of a step on an H200.
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
    def backward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (gradient,), (uses, (rows, places)) = given, ctx.saved_tensors
        total = gradient.index_select(0, uses[0])
        for use in uses[1:]:
            found = gradient.index_select(0, use.clamp(min=0))
            total = torch.addcmul(total, found, (use >= 0).to(found.dtype)[:, None, None])
        if len(rows):
            total = total.index_add(0, rows, gradient.index_select(0, places))
        return total, None, None, None
