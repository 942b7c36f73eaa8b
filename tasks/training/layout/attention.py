"""Causal attention over a flat row (plan.py), registered with transformers under a name of ours.

No mask function belongs to the name, so transformers builds no mask and hands every keyword of the
model's call through to `flat_attention`; the plan arrives as `layout`. On a GPU in half precision
all blocks are one variable-length call: queries are the flat rows as they lie, keys and values are
gathered by an index that repeats the prompt's rows. On a CPU they go as blocks.py says. Elsewhere
(float32 on a GPU, dropout) the blocks go one by one:

    keys        p p p p a a a | b b         a block b of queries sees the keys [p p p p | b b],
    queries             b b ->              lower-right causal: its last query sees all of them

A sliding window is a window over positions: within the keys of a block positions are consecutive,
so it is a window over indices too.

Legend: T rows, Hq query heads, Hkv key heads, D size of a head.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from tasks.training.layout.blocks import attend, has_kernel
from tasks.training.layout.on_device import Layout, sent, varlen_layout
from tasks.training.layout.plan import Block, FlatPlan

FLAT = "reward_flat"
"""Name of the attention implementation."""
HALF = (torch.float16, torch.bfloat16)
_OWN = "_attention_of_padded_batches"

try:
    from torch.nn.attention.varlen import varlen_attn as _varlen_attn
except ImportError:  # pragma: no cover
    _varlen_attn = None
varlen_attn: Callable[..., Any] | None = _varlen_attn


def layout_of(plan: FlatPlan, device: torch.device) -> Layout:
    """The plan's layout on a device."""
    if has_varlen(device):
        return varlen_layout(plan, device)
    return Layout(plan.blocks, sent(plan.last, device))


def has_varlen(device: torch.device) -> bool:
    """Whether the variable-length call runs there: its kernels are for GPUs from Ampere on."""
    if device.type != "cuda" or varlen_attn is None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


@contextmanager
def attention_of(model: PreTrainedModel, *, flat: bool) -> Generator[None, None, None]:
    """Inside, the model attends over a flat row, or as it was made to.

    Where gradient checkpointing will look the attention up again, in the backward pass of this very
    batch, a flat one stays until the next call.
    """
    config: Any = model.config
    own = getattr(model, _OWN, None) or config._attn_implementation
    if own != FLAT:
        setattr(model, _OWN, own)
    _set_attention(config, FLAT if flat else own)
    try:
        yield
    finally:
        if not (torch.is_grad_enabled() and _recomputes(model)):
            _set_attention(config, own)


def _recomputes(model: nn.Module) -> bool:
    """Whether gradient checkpointing is on, in whichever layers."""
    return any(getattr(m, "gradient_checkpointing", False) for m in model.modules() if m.training)


def _set_attention(config: Any, name: str) -> None:
    if config._attn_implementation != name:
        config._attn_implementation = name


def flat_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    layout: Layout | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention output `[1, T, Hq, D]` of `query [1, Hq, T, D]`, `key`, `value [1, Hkv, T, D]`.

    Raises:
        NotImplementedError: the layer caps its logits, has sinks, made a mask, which is for
            sequences in order, or did not hand the layout on.
    """
    if layout is None:
        raise NotImplementedError("its layers hand no arguments on to their attention")
    if attention_mask is not None:
        raise NotImplementedError("attention with a mask of its own has no flat layout")
    if softcap is not None or s_aux is not None:
        raise NotImplementedError("attention with capped logits or sinks has no flat layout")
    dtype = computing_dtype(query)
    dropout = dropout if module.training else 0.0
    if layout.keys is not None and dtype in HALF and not dropout:
        query, key, value = (x.to(dtype) for x in (query, key, value))
        return _varlen(query, key, value, layout, scaling, sliding_window), None
    if query.device.type == "cpu":
        # There the backward pass of small blocks is slower in half precision than in float32; and
        # autocast leaves values in half precision beside queries in float32.
        query, key, value = (x.float() if x.dtype in HALF else x for x in (query, key, value))
    if not dropout and has_kernel(query, key, value):
        return attend(query, key, value, layout, scaling, sliding_window).to(dtype), None
    if query.shape[1] != key.shape[1]:
        heads = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(heads, dim=1) for x in (key, value))
    # split, not slices: the backward pass of a slice fills a whole row of zeros.
    sizes = [block.own for block in layout.blocks]
    queries, keys, values = (x.split(sizes, dim=2) for x in (query, key, value))
    outputs: list[torch.Tensor] = []
    for index, block in enumerate(layout.blocks):
        k, v = (_with_prompt(x, index, block) for x in (keys, values))
        mask = layout.mask(block.own, block.own + block.prompt, sliding_window)
        out = scaled_dot_product_attention(
            queries[index], k, v, mask, dropout, is_causal=mask is None, scale=scaling
        )
        outputs.append(out)
    return torch.cat(outputs, dim=2).transpose(1, 2).to(dtype).contiguous(), None


def computing_dtype(query: torch.Tensor) -> torch.dtype:
    """What the products are computed in: under autocast a norm may have left float32 behind."""
    device = query.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else query.dtype


def _with_prompt(rows: tuple[torch.Tensor, ...], index: int, block: Block) -> torch.Tensor:
    if block.prompt == 0:
        return rows[index]
    home = rows[block.home]
    prompt, _ = home.split([block.prompt, home.shape[2] - block.prompt], dim=2)
    return torch.cat([prompt, rows[index]], dim=2)


def _varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: Layout,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    assert varlen_attn is not None
    assert layout.keys is not None
    q = query[0].transpose(0, 1)  # (T, Hq, D)
    k, v = (x[0].transpose(0, 1).index_select(0, layout.keys) for x in (key, value))  # (Tk, Hkv, D)
    most_queries, most_keys = layout.longest
    # Causal is a window that ends at the query; transformers' window W holds the query itself.
    sees = (-1 if window is None else window - 1, 0)
    options: dict[str, Any] = {"window_size": sees, "scale": scaling}
    if _wants_gqa_told(varlen_attn):
        options["enable_gqa"] = q.shape[1] != k.shape[1]
    out = varlen_attn(
        q, k, v, layout.query_starts, layout.key_starts, most_queries, most_keys, **options
    )
    return out[None]


@cache
def _wants_gqa_told(attend: Callable[..., Any]) -> bool:
    """Whether it has to be told of fewer key heads than query heads: torch 2.11's has not."""
    return "enable_gqa" in signature(attend).parameters


AttentionInterface.register(FLAT, flat_attention)
