"""One micro-batch as several smaller ones, each as if it had been collated by itself.

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


def split(batch: Batch, size: int, multiple: int | None = None) -> list[Batch]:
    """Batches of `size` items each: pairs, or where pairs share answers whole comparisons.

    `multiple`: their length is rounded up to a multiple of this, as the collator's is.

    Raises:
        TrainingError: the batch is not one of DataCollatorForPreference's.
    """
    unknown = sorted(set(batch) - {*SEQUENCES, PLAN, *ROWS, *RANKINGS, *OF_PAIRS})
    if unknown or not set(SEQUENCES) <= set(batch):
        raise TrainingError(
            f"out of memory, and a batch of {', '.join(sorted(batch))} cannot be cut in pieces; "
            "lower per_device_train_batch_size and raise gradient_accumulation_steps"
        )
    rows = _rows(batch)  # (B, 2)
    starts = [*_starts(batch, rows)[::size], len(rows)]
    here = {name: batch[name].cpu() for name in SEQUENCES}  # the device is waited for once
    return [
        _piece(batch, here, rows[start:stop], slice(start, stop), multiple or 1)
        for start, stop in itertools.pairwise(starts)
    ]


def items_in(batch: Batch) -> int:
    """How many items a batch has that `split` may part."""
    return len(_starts(batch, _rows(batch)))


def _starts(batch: Batch, rows: torch.Tensor) -> list[int]:
    """The first pair of every item."""
    if "chosen_row" not in batch:
        return [*range(len(rows))]
    return [0, *(cut for cut in range(1, len(rows)) if rows[:cut].max() < rows[cut:].min())]


def _rows(batch: Batch) -> torch.Tensor:
    """Rows of the chosen and the rejected sequence of every pair, `[B, 2]`, on the host."""
    if "chosen_row" in batch:
        return torch.stack([batch[name] for name in ROWS], 1).cpu()
    pairs = len(batch["input_ids"]) // 2
    return torch.arange(2 * pairs).reshape(2, pairs).T


def _piece(batch: Batch, here: Batch, rows: torch.Tensor, pairs: slice, multiple: int) -> Batch:
    """Some pairs, of these rows; `here`: the sequences on the host."""
    found: Batch = {name: batch[name][pairs] for name in OF_PAIRS if name in batch}
    wanted = rows.T.flatten()
    if "chosen_row" in batch:
        first = int(wanted.min())
        wanted = torch.arange(first, int(wanted.max()) + 1)
        found |= {name: batch[name][pairs] - first for name in ROWS}
        if "ranking" in batch:
            best = batch["ranking"][:, 0]
            own = (best >= first) & (best < first + len(wanted))
            ranking = batch["ranking"][own]
            longest = int((ranking >= 0).sum(1).max())
            found["ranking"] = torch.where(ranking < 0, ranking, ranking - first)[:, :longest]
            found["ranking_level"] = batch["ranking_level"][own, :longest]
            found["ranking_weight"] = batch["ranking_weight"][own]
    for name in SEQUENCES:
        found[name] = batch[name][wanted.to(batch[name].device)]
    ids, mask = (here[name][wanted] for name in SEQUENCES)
    if PLAN in batch:
        sequences = [row[own.bool()].numpy() for row, own in zip(ids, mask, strict=True)]
        groups = [batch[PLAN].groups[row] for row in wanted.tolist()]
        found[PLAN] = flat_plan(sequences, groups)
    length = -(-int(mask.sum(1).max()) // multiple) * multiple
    if not bool(mask[:, length:].any()):  # padded on the right, as the collator does
        found |= {name: found[name][:, :length].contiguous() for name in SEQUENCES}
    return found
