"""Causal attention over a flat row (plan.py), registered with transformers as `reward_flat`.

No mask function is registered under that name, so transformers builds no mask and passes every
keyword of the model's call on to `flat_attention`; the plan arrives as `layout`. On a GPU in half
precision all blocks are one call (ragged.py), on a CPU they are computed as in blocks.py. Otherwise
(float32 on a GPU, dropout, unusual head sizes) the blocks are computed one by one:

    keys        p p p p a a a | b b         a block b of queries sees the keys [p p p p | b b],
    queries             b b ->              lower-right causal: its last query sees all of them

A sliding window is a window over positions: within the keys of a block positions are consecutive,
so it is a window over indices too.

Legend: T rows, Hq query heads, Hkv key heads, D size of a head.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from tasks.training.layout.blocks import attend, has_kernel
from tasks.training.layout.on_device import Layout, to_device, varlen_layout
from tasks.training.layout.plan import Block, FlatPlan
from tasks.training.layout.ragged import fits_varlen, has_varlen, ragged_attention

FLAT = "reward_flat"
"""Name of the attention implementation."""
HALF = (torch.float16, torch.bfloat16)
_OWN = "_attention_of_padded_batches"


def layout_of(plan: FlatPlan, device: torch.device) -> Layout:
    """The plan's layout on a device."""
    if has_varlen(device):
        return varlen_layout(plan, device)
    return Layout(plan.blocks, to_device(plan.last, device))


@contextmanager
def attention_of(model: PreTrainedModel, *, flat: bool) -> Generator[None, None, None]:
    """Inside, the model uses `flat_attention`, or the attention it was loaded with.

    Under gradient checkpointing the choice stays until the next call, as the backward pass of this
    batch looks the attention up again.
    """
    config: Any = model.config
    if config._attn_implementation != FLAT:
        setattr(model, _OWN, config._attn_implementation)
    own = getattr(model, _OWN)
    _set_attention(config, FLAT if flat else own)
    try:
        yield
    finally:
        if not (torch.is_grad_enabled() and _recomputes(model)):
            _set_attention(config, own)


def _recomputes(model: nn.Module) -> bool:
    """Whether gradient checkpointing is on in any layer."""
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
        NotImplementedError: the layer caps its logits, has sinks or a mask of its own, or does not
            pass the layout on.
    """
    if layout is None:
        raise NotImplementedError("its layers hand no arguments on to their attention")
    if attention_mask is not None:
        raise NotImplementedError("attention with a mask of its own has no flat layout")
    if softcap is not None or s_aux is not None:
        raise NotImplementedError("attention with capped logits or sinks has no flat layout")
    dtype = computing_dtype(query)
    dropout = dropout if module.training else 0.0
    if layout.keys is not None and dtype in HALF and not dropout and fits_varlen(query):
        queries, keys, values = (x.to(dtype)[0].transpose(0, 1) for x in (query, key, value))
        return ragged_attention(queries, keys, values, layout, scaling, sliding_window)[None], None
    out = _by_blocks(query, key, value, layout, scaling, dropout, sliding_window)  # pyright: ignore[reportCallIssue]
    return out.to(dtype), None


@torch.compiler.disable
def _by_blocks(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: Layout,
    scaling: float | None,
    dropout: float,
    window: int | None,
) -> torch.Tensor:
    if query.device.type == "cpu":
        # On a CPU the backward pass of small blocks is slower in half precision than in float32,
        # and autocast may leave values in half precision beside queries in float32.
        query, key, value = (x.float() if x.dtype in HALF else x for x in (query, key, value))
    if not dropout and has_kernel(query, key, value):
        return attend(query, key, value, layout, scaling, window)
    if query.shape[1] != key.shape[1]:
        heads = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(heads, dim=1) for x in (key, value))
    # split, not slices: the backward pass of a slice fills a whole row of zeros.
    sizes = [block.own for block in layout.blocks]
    queries, keys, values = (x.split(sizes, dim=2) for x in (query, key, value))
    outputs: list[torch.Tensor] = []
    for index, block in enumerate(layout.blocks):
        k, v = (_with_prompt(x, index, block) for x in (keys, values))
        mask = layout.mask(block.own, block.own + block.prompt, window)
        out = scaled_dot_product_attention(
            queries[index], k, v, mask, dropout, is_causal=mask is None, scale=scaling
        )
        outputs.append(out)
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous()


def computing_dtype(query: torch.Tensor) -> torch.dtype:
    """The dtype of the products: under autocast not the query's, which a norm may have widened."""
    device = query.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else query.dtype


def _with_prompt(rows: tuple[torch.Tensor, ...], index: int, block: Block) -> torch.Tensor:
    if block.prompt == 0:
        return rows[index]
    home = rows[block.home]
    prompt, _ = home.split([block.prompt, home.shape[2] - block.prompt], dim=2)
    return torch.cat([prompt, rows[index]], dim=2)


AttentionInterface.register(FLAT, flat_attention)
