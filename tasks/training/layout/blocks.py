"""Attention over the blocks of a flat row on a CPU, forward and backward, without copying the row.

Each block is computed in chunks of queries (chunks.py). The masks of all chunks are lower-right
corners of one mask. Queries, keys, values and the output are saved for the backward pass as they
lie in the row; the kernel gets views of them, in which a stride of 0 repeats the key heads:

    query     [1, Hq, T, D]     viewed as [Hkv, Hq / Hkv, rows, D]
    key       [1, Hkv, T, D]    viewed as [Hkv, Hq / Hkv, seen, D]

In the backward pass a block's last chunk, which sees all of its keys, comes first: its gradients
are written to the block's own keys and values. Those of the other chunks, and of other blocks that
see the prompt, are added to them.

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
_IS_THERE = hasattr(_ATEN, _FORWARD) and hasattr(_ATEN, f"{_FORWARD}_backward")


def has_kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether torch's kernel for CPUs takes them: each head's numbers must be contiguous."""
    return (
        _IS_THERE
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
    """`[1, T, Hq, D]` of `query [1, Hq, T, D]`, `key`, `value [1, Hkv, T, D]`, of one dtype.

    `window`: how many positions a query sees, its own included. With a `pooled` layout only the
    pooled rows are computed; the others are zero.
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
        made = query.new_zeros if layout.pooled else query.new_empty
        output = made(1, query.shape[2], query.shape[1], query.shape[3])
        q, out = (_by_key_head(x, key) for x in (query, output.transpose(1, 2)))
        sums: list[torch.Tensor] = []
        for part in layout.parts:
            k, v = (_repeated(x, part.keys, q.shape[1]) for x in (key, value))
            for rows, seen in part.chunks:
                mask = layout.corner(rows.size, seen, window, q.dtype)
                found, sum_ = _ATEN._scaled_dot_product_flash_attention_for_cpu(
                    q.narrow(2, *rows),
                    k.narrow(2, 0, seen),
                    v.narrow(2, 0, seen),
                    attn_mask=mask,
                    scale=scaling,
                )
                out.narrow(2, *rows).copy_(found)
                sums.append(sum_)
        ctx.save_for_backward(query, key, value, output, *sums)
        ctx.told = layout, scaling, window
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, value, output, *sums = ctx.saved_tensors
        layout, scaling, window = ctx.told
        of_query = _like(query, query.new_zeros if layout.pooled else query.new_empty)
        of_key, of_value = (_like(x, x.new_empty) for x in (key, value))
        given = query, of_query, grad.transpose(1, 2), output.transpose(1, 2)
        q, of_q, g, out = (_by_key_head(x, key) for x in given)
        logsumexp = iter(sums)
        for part in layout.parts:
            k, v = (_repeated(x, part.keys, q.shape[1]) for x in (key, value))
            of_keys, of_values = (
                [x[0].narrow(1, *rows) for rows in part.keys] for x in (of_key, of_value)
            )
            chunks = [*zip(part.chunks, logsumexp, strict=False)]
            for place, ((rows, seen), sum_) in enumerate(reversed(chunks)):
                mask = layout.corner(rows.size, seen, window, q.dtype)
                found, *of_seen = _ATEN._scaled_dot_product_flash_attention_for_cpu_backward(
                    g.narrow(2, *rows),
                    q.narrow(2, *rows),
                    k.narrow(2, 0, seen),
                    v.narrow(2, 0, seen),
                    out.narrow(2, *rows),
                    sum_,
                    dropout_p=0.0,
                    is_causal=False,
                    attn_mask=mask,
                    scale=scaling,
                )
                of_q.narrow(2, *rows).copy_(found)
                for homes, grads in zip((of_keys, of_values), of_seen, strict=True):
                    _give(homes, grads, first=place == 0)
        return of_query, of_key, of_value, None, None, None


def _by_key_head(x: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """`[Hkv, Hq / Hkv, T, D]` of `[1, Hq, T, D]`: the query heads of each key head together."""
    return x[0].unflatten(0, (key.shape[1], -1))


def _repeated(x: torch.Tensor, homes: Sequence[Rows], times: int) -> torch.Tensor:
    """`[Hkv, times, n, D]`: the `n` rows of `x [1, Hkv, T, D]` at `homes`, repeated (as a view) for
    every query head of a key head."""
    found = [x[0].narrow(1, *rows) for rows in homes]
    joined = found[0] if len(found) == 1 else torch.cat(found, dim=1)
    return joined[:, None].expand(-1, times, -1, -1)


def _give(homes: list[torch.Tensor], found: torch.Tensor, *, first: bool) -> None:
    """Adds gradients `[Hkv, times, seen, D]` to those of the keys they belong to; the `first` of a
    block overwrites those of the block's own keys."""
    *prompt, own = homes
    found = found.sum(1)
    for whole in prompt:
        count = whole.shape[1]
        whole += found.narrow(1, 0, count)
        found = found.narrow(1, count, found.shape[1] - count)
    if first:
        own.copy_(found)
    else:
        own.narrow(1, 0, found.shape[1]).add_(found)


def _like(x: torch.Tensor, made: Callable[..., torch.Tensor]) -> torch.Tensor:
    """An array `[..., H, T, D]` stored row by row (T outermost), as a matrix product takes it."""
    return made(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1]).transpose(-3, -2)
