"""Cuts a micro-batch into smaller ones, each as if it had been collated by itself.

    8 pairs [16, T]  ->  2 x 4 pairs [8, T'], cut between pairs, or between comparisons

Legend: B pairs, S sequences (2B unless pairs share answers), C comparisons, T tokens.
"""

import itertools
from typing import Any

import torch

from tasks.errors import TrainingError
from tasks.training.layout.plan import flat_plan

SEQUENCES = ("input_ids", "attention_mask")
ROWS = ("chosen_row", "rejected_row")
RANKINGS = ("ranking", "ranking_level", "ranking_weight")
PLAN = "plan"
OF_PAIRS = ("margin", "weight", "preference", "pair_id", "comparison")

Batch = dict[str, Any]


def split(batch: Batch, size: int, advice: str, multiple: int | None = None) -> list[Batch]:
    """Batches of `size` items each: pairs, or where pairs share answers whole comparisons.

    `advice`: what to do where the batch cannot be split, for the error.
    `multiple`: lengths are rounded up to a multiple of this, as by the collator.

    Raises:
        TrainingError: the batch does not come from DataCollatorForPreference.
    """
    unknown = sorted(set(batch) - {*SEQUENCES, PLAN, *ROWS, *RANKINGS, *OF_PAIRS})
    if unknown or not set(SEQUENCES) <= set(batch):
        raise TrainingError(
            f"a batch of {', '.join(sorted(batch))} cannot be cut in pieces; {advice}"
        )
    rows = _rows(batch)  # (B, 2)
    starts = [*_starts(batch, rows)[::size], len(rows)]
    on_host = {name: batch[name].cpu() for name in SEQUENCES}  # waits for the device once
    return [
        _piece(batch, on_host, rows[start:stop], slice(start, stop), multiple or 1)
        for start, stop in itertools.pairwise(starts)
    ]


def items_in(batch: Batch) -> int:
    """Number of items that `split` can separate."""
    return len(_starts(batch, _rows(batch)))


def _starts(batch: Batch, rows: torch.Tensor) -> list[int]:
    """Number of the first pair of every item."""
    if "chosen_row" not in batch:
        return [*range(len(rows))]
    return [0, *(cut for cut in range(1, len(rows)) if rows[:cut].max() < rows[cut:].min())]


def _rows(batch: Batch) -> torch.Tensor:
    """Rows of the chosen and the rejected sequence of every pair, `[B, 2]`, on the host."""
    if "chosen_row" in batch:
        return torch.stack([batch[name] for name in ROWS], 1).cpu()
    pairs = len(batch["input_ids"]) // 2
    return torch.arange(2 * pairs).reshape(2, pairs).T


def _piece(batch: Batch, on_host: Batch, rows: torch.Tensor, pairs: slice, multiple: int) -> Batch:
    """The batch of `pairs`, whose sequences are at `rows`; `on_host`: all sequences."""
    piece: Batch = {name: batch[name][pairs] for name in OF_PAIRS if name in batch}
    kept = rows.T.flatten()
    if "chosen_row" in batch:
        first = int(kept.min())
        kept = torch.arange(first, int(kept.max()) + 1)
        piece |= {name: batch[name][pairs] - first for name in ROWS}
        if "ranking" in batch:
            best = batch["ranking"][:, 0]
            inside = (best >= first) & (best < first + len(kept))
            ranking = batch["ranking"][inside]
            longest = int((ranking >= 0).sum(1).max())
            piece["ranking"] = torch.where(ranking < 0, ranking, ranking - first)[:, :longest]
            piece["ranking_level"] = batch["ranking_level"][inside, :longest]
            piece["ranking_weight"] = batch["ranking_weight"][inside]
    for name in SEQUENCES:
        piece[name] = batch[name][kept.to(batch[name].device)]
    ids, mask = (on_host[name][kept] for name in SEQUENCES)
    if PLAN in batch:
        sequences = [row[marked.bool()].numpy() for row, marked in zip(ids, mask, strict=True)]
        groups = [batch[PLAN].groups[row] for row in kept.tolist()]
        piece[PLAN] = flat_plan(sequences, groups)
    length = -(-int(mask.sum(1).max()) // multiple) * multiple
    if not bool(mask[:, length:].any()):  # padded on the right, as the collator does
        piece |= {name: piece[name][:, :length].contiguous() for name in SEQUENCES}
    return piece
