"""Attention over the blocks of a flat row on a CPU, forward and backward, without copying the row.

Each block is computed in chunks of queries (chunks.py). The masks of all chunks are lower-right
corners of one mask. Queries, keys, values and the output are saved for the backward pass as whole
rows; the kernel gets views of them, in which a stride of 0 repeats the key heads:

    query     [1, Hq, T, D]     viewed as [Hkv, Hq / Hkv, rows, D]
    key       [1, Hkv, T, D]    viewed as [Hkv, Hq / Hkv, seen, D]

The backward pass begins with a block's last chunk, which sees all of its keys, and writes its
gradients to the block's own keys and values. Those of the other chunks, and of later blocks that
see the prompt, are added.

Legend: T rows, Hq query heads, Hkv key heads, D size of a head.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from tasks.training.layout.chunks import Rows
from tasks.training.layout.on_device import Layout

_ATEN: Any = torch.ops.aten
_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
_HAS_KERNEL = hasattr(_ATEN, _FORWARD) and hasattr(_ATEN, f"{_FORWARD}_backward")


def has_kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether torch's CPU kernel takes these tensors: each head's numbers must be contiguous."""
    return (
        _HAS_KERNEL
        and query.device.type == "cpu"
        and query.shape[-1] == value.shape[-1]
        and all(x.stride(-1) == 1 for x in (query, key, value))
    )


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: Layout,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    """Attention output `[1, T, Hq, D]`; `query [1, Hq, T, D]`, `key` and `value [1, Hkv, T, D]`.

    All are of one dtype. `window`: how many positions a query sees, its own included. With a
    `pooled` layout only the pooled rows are computed; the others are zero.
    """
    return _Blocks.apply(query, key, value, layout, scaling, window)  # pyright: ignore[reportReturnType]


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layout: Layout,
        scaling: float | None,
        window: int | None,
    ) -> torch.Tensor:
        allocate = query.new_zeros if layout.pooled else query.new_empty
        output = allocate(1, query.shape[2], query.shape[1], query.shape[3])
        q, out = (_by_key_head(x, key) for x in (query, output.transpose(1, 2)))
        logsumexps: list[torch.Tensor] = []
        for part in layout.parts:
            k, v = (_repeated(x, part.keys, q.shape[1]) for x in (key, value))
            for rows, seen in part.chunks:
                mask = layout.corner(rows.size, seen, window, q.dtype)
                attended, logsumexp = _ATEN._scaled_dot_product_flash_attention_for_cpu(
                    q.narrow(2, *rows),
                    k.narrow(2, 0, seen),
                    v.narrow(2, 0, seen),
                    attn_mask=mask,
                    scale=scaling,
                )
                out.narrow(2, *rows).copy_(attended)
                logsumexps.append(logsumexp)
        ctx.save_for_backward(query, key, value, output, *logsumexps)
        ctx.arguments = layout, scaling, window
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, value, output, *logsumexps = ctx.saved_tensors
        layout, scaling, window = ctx.arguments
        of_query = _row_major_like(query, query.new_zeros if layout.pooled else query.new_empty)
        of_key, of_value = (_row_major_like(x, x.new_empty) for x in (key, value))
        by_query = query, of_query, grad.transpose(1, 2), output.transpose(1, 2)
        q, of_q, g, out = (_by_key_head(x, key) for x in by_query)
        remaining = iter(logsumexps)
        for part in layout.parts:
            k, v = (_repeated(x, part.keys, q.shape[1]) for x in (key, value))
            of_keys, of_values = (
                [x[0].narrow(1, *rows) for rows in part.keys] for x in (of_key, of_value)
            )
            chunks = [*zip(part.chunks, remaining, strict=False)]
            for place, ((rows, seen), logsumexp) in enumerate(reversed(chunks)):
                mask = layout.corner(rows.size, seen, window, q.dtype)
                of_rows, *of_seen = _ATEN._scaled_dot_product_flash_attention_for_cpu_backward(
                    g.narrow(2, *rows),
                    q.narrow(2, *rows),
                    k.narrow(2, 0, seen),
                    v.narrow(2, 0, seen),
                    out.narrow(2, *rows),
                    logsumexp,
                    dropout_p=0.0,
                    is_causal=False,
                    attn_mask=mask,
                    scale=scaling,
                )
                of_q.narrow(2, *rows).copy_(of_rows)
                for slices, grads in zip((of_keys, of_values), of_seen, strict=True):
                    _accumulate(slices, grads, first=place == 0)
        return of_query, of_key, of_value, None, None, None


def _by_key_head(x: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """`[Hkv, Hq / Hkv, T, D]` of `[1, Hq, T, D]`: the query heads of each key head together."""
    return x[0].unflatten(0, (key.shape[1], -1))


def _repeated(x: torch.Tensor, keys: Sequence[Rows], times: int) -> torch.Tensor:
    """`[Hkv, times, n, D]`: the `n` rows `keys` of `x [1, Hkv, T, D]`, repeated as a view for every
    query head of a key head."""
    slices = [x[0].narrow(1, *rows) for rows in keys]
    joined = slices[0] if len(slices) == 1 else torch.cat(slices, dim=1)
    return joined[:, None].expand(-1, times, -1, -1)


def _accumulate(slices: list[torch.Tensor], grads: torch.Tensor, *, first: bool) -> None:
    """Adds `grads [Hkv, times, seen, D]` to `slices`, the gradients of a block's keys; the `first`
    of a block overwrites those of the block's own keys."""
    *prompt, own = slices
    grads = grads.sum(1)
    for whole in prompt:
        count = whole.shape[1]
        whole += grads.narrow(1, 0, count)
        grads = grads.narrow(1, count, grads.shape[1] - count)
    if first:
        own.copy_(grads)
    else:
        own.narrow(1, 0, grads.shape[1]).add_(grads)


def _row_major_like(x: torch.Tensor, allocate: Callable[..., torch.Tensor]) -> torch.Tensor:
    """An array shaped as `x [..., H, T, D]`, T outermost in memory, as matrix products need it."""
    return allocate(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1]).transpose(-3, -2)
