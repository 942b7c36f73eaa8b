"""The flat row's attention by FlexAttention: the other way than the package's, to be compared.

In:  a layout (tasks/training/layout), the queries, keys and values of a flat row.
Out: what `flat_attention` gives, computed under one mask of the whole row.

    keys        p p p a a | b b | P P A | B ...    a query of b sees p p p and the b up to itself:
    query b     x x x . .   x .   . . .   .        rows from `own` on, and `prompt` rows from `home`

The mask is made once for a batch; its function reads tensors, so another batch is no other graph.
Rows are filled up to whole blocks of the mask; those see themselves.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.functional import pad
from transformers import AttentionInterface

from tasks.training.layout.attention import FLAT, computing_dtype
from tasks.training.layout.on_device import Layout
from tasks.training.layout.plan import Block

BLOCK = 128
"""Rows of a block of the mask."""
_MASK = "mask_of_flex_attention"
"""Under this name a layout keeps its mask."""


def use_flex(*, compiled: bool) -> None:
    """From now on every flat row in this process is attended to by FlexAttention.

    On a CPU it has no gradients. `compiled`: else by its plain definition, which is slow, and tells
    whether the rewards are right.
    """
    attend: Any = flex_attention
    attend = torch.compile(attend, dynamic=True) if compiled else attend
    AttentionInterface.register(FLAT, partial(flex_flat_attention, attend=attend))


def flex_flat_attention(
    _module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001
    *,
    attend: Callable[..., Any],
    layout: Layout,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention output `[1, T, Hq, D]` of `query [1, Hq, T, D]`, `key`, `value [1, Hkv, T, D]`.

    Raises:
        NotImplementedError: the layer has a sliding window, which no mask is made for here.
    """
    if sliding_window is not None:
        raise NotImplementedError("no mask with a sliding window is made here")
    dtype = computing_dtype(query)
    query, key, value = (x.to(dtype) for x in (query, key, value))
    rows = query.shape[2]
    more = -rows % BLOCK
    query, key, value = (pad(x, (0, 0, 0, more)) for x in (query, key, value))
    mask = _mask(layout, rows + more, query.device)
    grouped = query.shape[1] != key.shape[1]
    out = attend(query, key, value, block_mask=mask, scale=scaling, enable_gqa=grouped)
    return out[:, :, :rows].transpose(1, 2).contiguous(), None


def _mask(layout: Layout, rows: int, device: torch.device) -> BlockMask:
    """What every row sees; made once for a layout."""
    if not hasattr(layout, _MASK):
        own, home, prompt = (torch.from_numpy(x).to(device) for x in seen_rows(layout, rows))

        def sees(_b: Any, _h: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            itself = (k >= own[q]) & (k <= q)
            return itself | ((k >= home[q]) & (k < home[q] + prompt[q]))

        shape = (None, None, rows, rows)
        mask = create_block_mask(sees, *shape, device=str(device), BLOCK_SIZE=BLOCK)
        setattr(layout, _MASK, mask)
    return getattr(layout, _MASK)


def seen_rows(layout: Layout, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every row (int64 `[rows]` each) where its own block begins, where its prompt does, and how
    many rows of that one it sees."""
    filling = rows - sum(block.own for block in layout.blocks)
    blocks = [*layout.blocks, *[Block(1)] * filling]
    sizes = [block.own for block in blocks]
    starts = np.cumsum([0, *sizes[:-1]])
    own, home, prompt = starts, [starts[b.home] for b in blocks], [b.prompt for b in blocks]
    return np.repeat(own, sizes), np.repeat(home, sizes), np.repeat(prompt, sizes)
