"""Every figure of the evaluation, computed from the tables of scores and of texts.

Sums and counts over pairs, divided once, in the order of the pairs' ids: no figure depends on
batches or on the order of rows. A pair whose preference is 0.5 has no right side: it is counted as
`undecided` and is in no other figure of a set. Weights are not applied: a pair is a pair.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import DataError
from tasks.evaluation.measures.bias import Judges, bias_panel
from tasks.evaluation.measures.calibration import (
    calibration_bins,
    calibration_error,
    error_interval,
    sigmoid,
    softplus,
)
from tasks.evaluation.measures.concerns import warnings_of
from tasks.evaluation.measures.distribution import reward_distribution
from tasks.evaluation.measures.intervals import Resampling, halved, intervals_of
from tasks.evaluation.measures.readiness import readiness
from tasks.evaluation.measures.slices import Slices, slices_of, slices_of_labels
from tasks.evaluation.measures.suspects import suspect_figures
from tasks.evaluation.scoring.probes import probe_figures
from tasks.evaluation.tables.answers import answers_of
from tasks.evaluation.tables.scores import Floats, Scores, Strings
from tasks.evaluation.tables.texts import Texts

FORMAT = 2
"""The version of the layout of `metrics.json`, which the package's docstring describes."""

Metrics = dict[str, Any]


def none_decided(pairs: int) -> DataError:
    """The error of held-out pairs that are all ties."""
    return DataError(
        f"none of the {pairs} held-out pairs has a better side (preference 0.5 in all), "
        "expected one at least; raise conversion.eval_fraction, or drop ties"
    )


def all_metrics(
    scores: Scores,
    texts: Texts | None = None,
    how: Resampling | None = None,
    *,
    judges: Judges | None = None,
    probes: pa.Table | None = None,
    columns: Mapping[str, Strings] | None = None,
) -> dict[str, Any]:
    """The families of figures that one model's tables give (`texts`, `judges` and the labels
    of `columns` aligned with `scores`); what would need a table that is not given is left out.

    Raises:
        DataError: no pair has a better side.
    """
    if not scores.decided.any():
        raise none_decided(len(scores))
    how = how or Resampling()
    order = scores.order()
    scores, texts = scores.take(order), texts.take(order) if texts else None
    if texts:
        scores = replace(scores, group=texts.group)
    answers = answers_of(scores).several()
    found = {
        "format": FORMAT,
        **_by_set_of_pairs(scores, texts, how),
        "rewards": reward_distribution(scores),
        "bias": bias_panel(scores, answers, texts, (judges or Judges()).take(order), how),
        "readiness": readiness(scores, answers)
        | {"probes": None if probes is None else probe_figures(probes, scores)},
        "suspects": suspect_figures(scores),
    }
    if columns:
        found["columns"] = {
            name: _metrics_of_each(scores, slices_of_labels(labels[order]), how)
            for name, labels in columns.items()
        }
    return found | {"warnings": warnings_of(found)}


def _by_set_of_pairs(scores: Scores, texts: Texts | None, how: Resampling) -> Metrics:
    """Accuracy, loss and calibration: of all pairs, of each source, of each slice."""
    decided = scores.take(scores.decided)
    margin, preference = decided.margin, decided.preference
    interval = error_interval(margin, preference, decided.group, how)
    return {
        "overall": metrics_of(scores, how) | {"ece_interval": interval},
        "sources": {
            source: metrics_of(scores.of_source(source), how)
            for source in sorted(set(scores.source.tolist()))
        },
        "slices": {
            name: _metrics_of_each(scores, slices, how)
            for name, slices in slices_of(scores, texts).items()
        },
        "calibration": calibration_bins(margin, preference),
    }


def _metrics_of_each(scores: Scores, slices: Slices, how: Resampling) -> list[Metrics]:
    return [{"slice": label, **metrics_of(scores.take(rows), how)} for label, rows in slices]


def metrics_of(scores: Scores, how: Resampling | None = None) -> Metrics:
    """The figures of one set of pairs; None where it holds no decided pair.

    Loss is the cross-entropy of `sigmoid(margin - pair_margin)` and the preference: with
    preference 1, the negative log-likelihood of Bradley and Terry (1952) with a margin. Where any
    pair has one, the same without margins stands beside it: a coin's is 0.693. Brier
    (1950) is the mean square of `preference - sigmoid(margin)`.
    """
    undecided = int(np.count_nonzero(~scores.decided))
    scores = scores.take(scores.decided)
    n = len(scores)
    correct, ties = scores.margin > 0, scores.margin == 0
    counts = {"pairs": n, "correct": int(correct.sum()), "ties": int(ties.sum())}
    shares = {
        "accuracy": correct.astype(np.float64),
        "accuracy_ties_half": halved(scores.margin),
        "length_baseline": halved(scores.chosen_tokens - scores.rejected_tokens),
    }
    means = {
        "margin": scores.margin,
        "loss": losses(scores),
        "brier": (scores.preference - sigmoid(scores.margin)) ** 2,
    }
    if scores.pair_margin.any():
        means["loss_without_margins"] = losses(replace(scores, pair_margin=np.zeros(n)))
    groups = len(set(scores.group.tolist()))
    figures: Metrics = {**counts, "undecided": undecided, "groups": groups}
    if not n:
        names = [*shares, *means, "ece", *REWARDS]
        return figures | dict.fromkeys([*names, *(f"{m}_interval" for m in (*shares, *means))])
    intervals = intervals_of(shares, means, scores.group, how or Resampling())
    for name, values in {**shares, **means}.items():
        interval = intervals[name]
        if interval and name in NEVER_NEGATIVE:
            interval = max(0.0, interval[0]), interval[1]
        figures |= {name: float(values.sum() / n), f"{name}_interval": interval}
    figures["ece"] = calibration_error(scores.margin, scores.preference)
    return figures | _reward_figures(np.concatenate([scores.chosen, scores.rejected]))


NEVER_NEGATIVE = {"loss", "loss_without_margins", "brier"}
"""Means whose normal interval, which may reach below 0 on few pairs, is cut there."""
REWARDS = ("min_reward", "mean_reward", "max_reward", "std_reward")


def _reward_figures(rewards: Floats) -> dict[str, float]:
    """The figures of `REWARDS`, over all sides `[2N]`."""
    mean = rewards.sum() / len(rewards)
    found = (rewards.min(), mean, rewards.max(), rewards.std())
    return {name: float(value) for name, value in zip(REWARDS, found, strict=True)}


def losses(scores: Scores) -> Floats:
    """The loss of every pair, `[N]`."""
    x, q = scores.margin - scores.pair_margin, scores.preference
    return q * softplus(-x) + (1 - q) * softplus(x)


UNNAMED = {"slices", "columns", "calibration", "scale"}
"""Families that are lists, or are of no use as a series of numbers."""


def flat(metrics: Mapping[str, Any]) -> dict[str, float]:
    """`{name: number}` of `all_metrics`, for a tracker: the overall figures by their own names,
    intervals as `_low`/`_high`, sources as `source.<name>.`, other families as `<family>.`;
    figures that are None, lists and texts are left out."""
    numbers = _flat(metrics["overall"], "")
    for source, figures in metrics["sources"].items():
        numbers |= _flat(figures, f"source.{source}.")
    for family in sorted(set(metrics) - UNNAMED - {"overall", "sources", "format"}):
        if isinstance(metrics[family], Mapping):
            numbers |= _flat(metrics[family], f"{family}.")
    return numbers


def _flat(figures: Mapping[str, Any], prefix: str) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            numbers |= _flat(value, f"{prefix}{name}.")  # type: ignore[arg-type]
        elif name.endswith("_interval") and value is not None:
            stem = f"{prefix}{name.removesuffix('_interval')}"
            numbers |= {f"{stem}_low": value[0], f"{stem}_high": value[1]}
        elif isinstance(value, int | float):
            numbers[f"{prefix}{name}"] = float(value) if isinstance(value, bool) else value
    return numbers
