"""Every figure of the evaluation, computed from the table of per-pair scores.

Sums and counts over pairs, divided once: no figure depends on batches or on their order. Loss is
`mean softplus(-(margin - pair_margin))`, the negative log-likelihood of Bradley and Terry (1952)
with a margin. Intervals hold 95 %: Wilson (1927) for shares, normal for the mean margin.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np

from tasks.evaluation.table import Floats, Scores

Z = 1.959963984540054
"""Quantile 0.975 of the standard normal distribution."""
CALIBRATION_BINS = 10

Metrics = dict[str, Any]
Interval = tuple[float, float]


def all_metrics(scores: Scores) -> dict[str, Any]:
    """`{"overall": metrics, "sources": {source: metrics}, "calibration": bins}`."""
    sources = list(dict.fromkeys(scores.source.tolist()))
    return {
        "overall": metrics_of(scores),
        "sources": {source: metrics_of(scores.of_source(source)) for source in sources},
        "calibration": calibration_bins(scores.margin),
    }


def metrics_of(scores: Scores) -> Metrics:
    """The figures of one non-empty set of pairs."""
    n = len(scores)
    correct = int(np.count_nonzero(scores.margin > 0))
    ties = int(np.count_nonzero(scores.margin == 0))
    longer = int(np.count_nonzero(scores.chosen_tokens > scores.rejected_tokens))
    as_long = int(np.count_nonzero(scores.chosen_tokens == scores.rejected_tokens))
    rewards = np.concatenate([scores.chosen, scores.rejected])
    return {
        "pairs": n,
        "correct": correct,
        "ties": ties,
        **_share("accuracy", correct, n),
        **_share("accuracy_ties_half", correct + ties / 2, n),
        "margin": float(scores.margin.sum() / n),
        "margin_interval": mean_interval(scores.margin),
        "loss": float(softplus(scores.pair_margin - scores.margin).sum() / n),
        "brier": float((sigmoid(-scores.margin) ** 2).sum() / n),
        "ece": calibration_error(scores.margin),
        "min_reward": float(rewards.min()),
        "mean_reward": float(rewards.sum() / len(rewards)),
        "max_reward": float(rewards.max()),
        "std_reward": float(rewards.std()),
        **_share("length_baseline", longer + as_long / 2, n),
    }


def _share(name: str, hits: float, n: int) -> Metrics:
    return {name: hits / n, f"{name}_interval": wilson_interval(hits, n)}


def wilson_interval(hits: float, n: int) -> Interval:
    """The 95 % score interval of a share; never outside [0, 1], sound near 0 and 1."""
    p, z2 = hits / n, Z * Z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return (0.0 if hits == 0 else centre - half), (1.0 if hits == n else centre + half)


def mean_interval(values: Floats) -> Interval | None:
    """The 95 % normal interval of a mean (sample deviation, n - 1); None for a single value."""
    n = len(values)
    if n < 2:
        return None
    mean = float(values.sum() / n)
    half = Z * float(values.std(ddof=1)) / sqrt(n)
    return mean - half, mean + half


def calibration_bins(margin: Floats) -> list[dict[str, float]]:
    """How often the side that the model prefers is the chosen one, by the model's confidence.

    Confidence is `sigmoid(|margin|)`, from 0.5 to 1, in ten bins; a tie is half right. Empty bins
    are left out.
    """
    confidence = sigmoid(np.abs(margin))
    right = np.where(margin == 0, 0.5, margin > 0)
    bins = np.minimum((confidence - 0.5) * 2 * CALIBRATION_BINS, CALIBRATION_BINS - 1).astype(int)
    return [
        {
            "pairs": int(inside.sum()),
            "confidence": float(confidence[inside].sum() / inside.sum()),
            "accuracy": float(right[inside].sum() / inside.sum()),
        }
        for inside in (bins == index for index in range(CALIBRATION_BINS))
        if inside.any()
    ]


def calibration_error(margin: Floats) -> float:
    """Expected calibration error: mean gap of confidence and accuracy, bins weighted by pairs."""
    gaps = (b["pairs"] * abs(b["confidence"] - b["accuracy"]) for b in calibration_bins(margin))
    return sum(gaps) / len(margin)


def softplus(x: Floats) -> Floats:
    """`log(1 + exp(x))`, without overflow."""
    return np.logaddexp(0.0, x)


def sigmoid(x: Floats) -> Floats:
    """`1 / (1 + exp(-x))`, without overflow."""
    return np.exp(-np.logaddexp(0.0, -x))


def flat(metrics: Mapping[str, Any]) -> dict[str, float]:
    """`{name: number}` of `all_metrics`, for a tracker: intervals as `_low`/`_high`, sources as
    `source.<name>.`; figures that are None are left out."""
    numbers = _flat(metrics["overall"], "")
    for source, figures in metrics["sources"].items():
        numbers |= _flat(figures, f"source.{source}.")
    return numbers


def _flat(figures: Mapping[str, Any], prefix: str) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, value in figures.items():
        if isinstance(value, tuple | list):
            stem = f"{prefix}{name.removesuffix('_interval')}"
            numbers |= {f"{stem}_low": value[0], f"{stem}_high": value[1]}
        elif value is not None:
            numbers[f"{prefix}{name}"] = value
    return numbers
