"""The table of all pairs' rewards in one evaluation, and the metrics computed from it.

So no metric depends on the batch size or the number of processes. Legend: N pairs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset

from tasks.conversion.preference.pair import TIE
from tasks.training.batches.columns import numbers
from tasks.training.batches.comparisons import Comparisons, level_starts, ranking
from tasks.training.loss.losses import centering, plackett_luce
from tasks.training.loss.objective import Objective
from tasks.training.metrics.interval import Floats, names_of, table_metrics

TERMS = ("margin", "weight", "preference")
"""Columns of the labels that an evaluation gathers beside the rewards, in this order."""
TIE_LABEL = -100
"""torch's `ignore_index`."""


class EvaluationTable:
    """Rewards and `TERMS` of all pairs, added in the order of the data set."""

    def __init__(self, objective: Objective, dataset: Any) -> None:
        self.objective = objective
        self.dataset: Dataset | None = dataset if isinstance(dataset, Dataset) else None
        self._batches: list[tuple[Floats, Floats]] = []

    def add(self, rewards: Floats, terms: Floats) -> None:
        """Adds rewards `[n, 2]` (chosen, rejected) and `TERMS` `[n, 3]`."""
        self._batches.append((rewards, terms))

    def metrics(self) -> dict[str, float]:
        """The metrics of all pairs and, if there are several sources, `<source>_*` of each."""
        rewards, terms = (np.concatenate(part) for part in zip(*self._batches, strict=True))
        whole = self.dataset is not None and len(self.dataset) == len(rewards)
        rows = self.dataset if whole else None
        losses, weight = losses_and_weights(self.objective, rewards, terms, rows)
        metrics = _metrics(rewards, terms, losses, weight)
        sources = _sources(rows)
        for source in _several(sources):
            own = np.asarray([name == source for name in sources])
            of_source = _metrics(rewards[own], terms[own], losses[own], weight[own])
            metrics |= {f"{source}_{name}": value for name, value in of_source.items()}
        return metrics


def metric_names(rows: Any) -> list[str]:
    """The names that every table of these rows has: `loss`, ..., `<source>_loss`, ...

    A stream is taken for one of a single source, without ties.
    """
    if not isinstance(rows, Dataset):
        return ["loss", *names_of(np.zeros(1, bool))]
    tied, sources = numbers(rows, "preference", 1.0, "eval") == TIE, _sources(rows)
    parts = {"": tied}
    for source in sorted(_several(sources)):
        parts[f"{source}_"] = tied[[name == source for name in sources]]
    return [start + name for start, own in parts.items() for name in ("loss", *names_of(own))]


def labels(terms: Floats) -> npt.NDArray[np.int64]:
    """Column of the better answer of every pair, `[N]`: 0 (chosen), or `TIE_LABEL` for a tie."""
    return np.where(terms[:, TERMS.index("preference")] == TIE, TIE_LABEL, 0).astype(np.int64)


def losses_and_weights(
    objective: Objective, rewards: Floats, terms: Floats, rows: Dataset | None
) -> tuple[Floats, Floats]:
    """Loss and weight of every pair, float64 `[N]` each; the metric `loss` is their weighted mean.

    Under a loss of comparisons, the weight of each of a comparison's n pairs is divided by n; under
    Plackett-Luce all n have the comparison's loss.
    """
    table = torch.from_numpy(rewards.astype(np.float64))
    chosen, rejected = table.unbind(1)
    margin, weight, preference = torch.from_numpy(terms.astype(np.float64)).unbind(1)
    shares = weight.clone()
    losses = objective.pair_losses(chosen, rejected, margin, preference)
    if objective.params.of_comparisons and rows is not None:
        comparisons = Comparisons(rows)
        listwise = objective.params.type == "plackett_luce"
        for index, group in enumerate(comparisons.groups):
            shares[group] = weight[group] / len(group)
            if listwise and (len(group) > 1 or preference[group[0]] == TIE):
                levels = ranking(comparisons[index])
                ordered = torch.stack([table[group[n], s] for level in levels for n, s in level])
                best_first = torch.arange(len(ordered))[None]
                starts = torch.tensor([level_starts(levels)])
                losses[group] = plackett_luce(ordered, best_first, starts)
    if objective.center_rewards_coefficient:
        losses = losses + objective.center_rewards_coefficient * centering(chosen, rejected)
    return losses.numpy(), shares.numpy()


def _metrics(rewards: Floats, terms: Floats, losses: Floats, weight: Floats) -> dict[str, float]:
    preference = terms[:, TERMS.index("preference")]
    loss = float((weight * losses).sum() / weight.sum())
    return {"loss": loss, **table_metrics(rewards, preference)}


def _several(sources: Sequence[str | None]) -> list[str]:
    """The sources that have metrics of their own: each, unless all rows are of one, or fewer than
    two rows have the same on average: then the column names rows. Rows whose source is null count
    in the metrics of all rows alone."""
    named = [source for source in sources if source is not None]
    found = dict.fromkeys(named)
    of_one = len(found) == 1 and len(named) == len(sources)
    return [] if of_one or 2 * len(found) > len(named) else [*found]


def _sources(rows: Dataset | None) -> list[str | None]:
    if rows is None or "source" not in rows.column_names:
        return []
    return [None if source is None else str(source) for source in rows["source"]]
