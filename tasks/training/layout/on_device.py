"""A plan as tensors on the device: what every layer's attention needs, made once per batch.

    blocks      prompt + chosen   rejected        as in the plan, on the host
    last        rows that rewards are read at     on the device
    keys ...    for one variable-length call      on the device, if it has that call

Legend: T rows, Tk gathered rows, N blocks, A answers.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tasks.training.layout.chunks import Part, parts_of
from tasks.training.layout.plan import Block, FlatPlan, key_rows, uses


@dataclass
class Layout:
    """A plan on the device, shared by all layers of one forward pass and its backward pass."""

    blocks: tuple[Block, ...]
    last: torch.Tensor
    """int64 [A], rows of the answers' last tokens."""
    keys: torch.Tensor | None = None
    """int64 [Tk], rows gathered as keys; only for the variable-length call."""
    query_starts: torch.Tensor | None = None
    """int32 [N + 1], the first query of every block, then their number."""
    key_starts: torch.Tensor | None = None
    """int32 [N + 1], the same of the gathered keys."""
    uses: torch.Tensor | None = None
    """int64 [1 or 2, T], the first and second place of each row among `keys`; -1 for no second."""
    further_uses: torch.Tensor | None = None
    """int64 [2, R], row and place of every further occurrence (the third and later ones)."""
    most_queries: int = 0
    most_keys: int = 0
    """Largest numbers of queries and keys in a block, for the same call."""
    pooled: bool = False
    """Whether only the rows of `last` are needed."""
    masks: dict[tuple[int, int, int | None], torch.Tensor] = field(default_factory=dict)
    """By (queries, keys, window): bool [queries, keys]."""
    corners: dict[tuple[int | None, torch.dtype], torch.Tensor] = field(default_factory=dict)
    """By (window, dtype): the largest additive mask (0 or minus infinity) that was needed yet."""

    @cached_property
    def parts(self) -> list[Part]:
        """The blocks cut into chunks of queries, for a CPU."""
        return parts_of(self.blocks, pooled=self.pooled)

    def mask(self, queries: int, keys: int, window: int | None) -> torch.Tensor | None:
        """Which keys a block's queries see (lower-right causal); None for a plain causal square."""
        window = window if window is not None and window < keys else None
        if queries == keys and window is None:
            return None
        shape = (queries, keys, window)
        if shape not in self.masks:
            self.masks[shape] = self._seen(*shape)
        return self.masks[shape]

    def corner(
        self, queries: int, keys: int, window: int | None, dtype: torch.dtype
    ) -> torch.Tensor:
        """`mask` as an additive mask, `[queries, keys]`: the lower-right corner of a larger one.

        All blocks share the larger one, since only the distance to the last key matters.
        """
        corner = self.corners.get((window, dtype))
        rows, columns = (0, 0) if corner is None else corner.shape
        if corner is None or rows < queries or columns < keys:
            rows, columns = (
                max(rows, queries),
                max(columns, *(b.own + b.prompt for b in self.blocks)),
            )
            hidden = ~self._seen(rows, columns, window)
            corner = torch.zeros_like(hidden, dtype=dtype).masked_fill(hidden, -math.inf)
            self.corners[window, dtype] = corner
        return corner[rows - queries :, columns - keys :]

    def _seen(self, queries: int, keys: int, window: int | None) -> torch.Tensor:
        """Which keys are seen, bool `[queries, keys]`; the last query is at the last key."""
        device = self.last.device
        last = torch.arange(keys - queries, keys, device=device)[:, None]
        key = torch.arange(keys, device=device)[None, :]
        return key <= last if window is None else (key <= last) & (last - key < window)


def to_device(array: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """The array on the device; to a GPU it is copied asynchronously, from pinned memory."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def varlen_layout(plan: FlatPlan, device: torch.device) -> Layout:
    """The plan's layout, with the tensors of the variable-length call."""
    rows = list(key_rows(plan))
    sizes = [b.own for b in plan.blocks], [len(r) for r in rows]
    starts = [np.cumsum([0, *counts], dtype=np.int32) for counts in sizes]
    keys = np.concatenate(rows)
    arrays = (plan.last, keys, *starts, *uses(keys))
    return Layout(
        plan.blocks,
        *(to_device(array, device) for array in arrays),
        most_queries=max(sizes[0]),
        most_keys=max(sizes[1]),
    )
