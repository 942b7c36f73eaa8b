"""Attention over the blocks of a flat row on a CPU, forward and backward, without copying the row.

torch's kernel for CPUs computes up to 512 keys for every query, also those that it then masks: half
of a causal square for nothing. So a block goes in chunks of queries, each with the keys up to its
own last one:

    keys        p p p p b b b b b b
    chunk 0     s s s s s s .               s: computed and seen
    chunk 1     s s s s s s s s .           .: computed and masked
    chunk 2     s s s s s s s s s .

Where only the pooled rows are asked for, a block's one chunk is its last row. The masks of all
chunks are corners of one: it ends at the lower right. Queries, keys, values and the output are kept
for the backward pass as they lie in the row; the kernel is given views of them, key heads repeated
by a stride of nought, and its gradients are added to where they belong.

Legend: T rows, Hq query heads, Hkv key heads, D size of a head, n keys of a block.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from tasks.training.layout.on_device import Layout

CHUNK = 128
"""Queries of the smallest chunk of a block that has several."""
_ATEN: Any = torch.ops.aten
_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
_IS_THERE = hasattr(_ATEN, _FORWARD) and hasattr(_ATEN, f"{_FORWARD}_backward")
Rows = tuple[int, int]


def has_kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether torch's kernel for CPUs takes them: it reads each head's numbers as neighbours."""
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

    `window`: positions that a query sees, its own among them. Of a layout of pooled rows only those
    are computed, and the others are zero.
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
        sums: list[torch.Tensor] = []
        for keys, values, _, chunks in _blocks(layout, key, value):
            for rows, seen in chunks:
                q = _grouped(query, rows, key.shape[1])
                k, v = (_repeated(x, seen, q.shape[1]) for x in (keys, values))
                mask = layout.corner(q.shape[2], seen, window, q.dtype)
                found, sum_ = _ATEN._scaled_dot_product_flash_attention_for_cpu(
                    q, k, v, 0.0, False, attn_mask=mask, scale=scaling
                )
                output[0, slice(*rows)] = found.flatten(0, 1).transpose(0, 1)
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
        grad, output = grad.transpose(1, 2), output.transpose(1, 2)  # (1, Hq, T, D)
        logsumexp = iter(sums)
        for keys, values, home, chunks in _blocks(layout, key, value):
            of_keys, of_values = (
                [x[0, :, slice(*rows)] for rows in home] for x in (of_key, of_value)
            )
            known = [*zip(chunks, logsumexp, strict=False)]
            for (rows, seen), sum_ in reversed(known):  # the last one sees every key
                g, q, out = (_grouped(x, rows, key.shape[1]) for x in (grad, query, output))
                k, v = (_repeated(x, seen, q.shape[1]) for x in (keys, values))
                mask = layout.corner(q.shape[2], seen, window, q.dtype)
                of_q, of_k, of_v = _ATEN._scaled_dot_product_flash_attention_for_cpu_backward(
                    g, q, k, v, out, sum_, 0.0, False, attn_mask=mask, scale=scaling
                )
                of_query[0, :, slice(*rows)] = of_q.flatten(0, 1)
                _give(of_keys, of_k, first=rows[1] == home[-1][1])
                _give(of_values, of_v, first=rows[1] == home[-1][1])
        return of_query, of_key, of_value, None, None, None


class _Keys(NamedTuple):
    """What the queries of one block may see."""

    keys: torch.Tensor
    """[Hkv, n, D]"""
    values: torch.Tensor
    """[Hkv, n, D]"""
    home: list[Rows]
    """The rows that they are of: the prompt's, if it lies in another block, and the block's own."""
    chunks: list[tuple[Rows, int]]
    """Rows of queries, and how many of the n keys they see."""


def _blocks(layout: Layout, key: torch.Tensor, value: torch.Tensor) -> Iterator[_Keys]:
    starts = [0, *accumulate(block.own for block in layout.blocks)]
    for block, start, end in zip(layout.blocks, starts, starts[1:], strict=False):
        prompt = starts[block.home]
        home = [(prompt, prompt + block.prompt)] if block.prompt else []
        home.append((start, end))
        keys, values = (_joined([x[0, :, slice(*rows)] for rows in home]) for x in (key, value))
        count = max(1, block.own // CHUNK)
        cuts = [start + block.own * index // count for index in range(count + 1)]
        if layout.pooled:
            cuts = [end - 1, end]
        chunks = [(rows, block.prompt + rows[1] - start) for rows in pairwise(cuts)]
        yield _Keys(keys, values, home, chunks)


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _grouped(x: torch.Tensor, rows: Rows, key_heads: int) -> torch.Tensor:
    """`[Hkv, Hq / Hkv, rows, D]` of `[1, Hq, T, D]`: the query heads of each key head together."""
    return x[0, :, slice(*rows)].unflatten(0, (key_heads, -1))


def _repeated(x: torch.Tensor, seen: int, times: int) -> torch.Tensor:
    """`[Hkv, times, seen, D]` of `[Hkv, n, D]`, without a copy."""
    return x[:, None, :seen].expand(-1, times, -1, -1)


def _give(homes: list[torch.Tensor], found: torch.Tensor, *, first: bool) -> None:
    """Adds `[Hkv, times, seen, D]` to where its keys lie; the first of a block gives its own rows
    what they begin with."""
    *prompt, own = homes
    found = found.sum(1)
    for whole in prompt:
        whole += found[:, : whole.shape[1]]
        found = found[:, whole.shape[1] :]
    if first:
        own.copy_(found)
    else:
        own[:, : found.shape[1]] += found


def _like(x: torch.Tensor, made: Callable[..., torch.Tensor]) -> torch.Tensor:
    """`[..., H, T, D]` that lies row by row, as a product takes it."""
    return made(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1]).transpose(-3, -2)
