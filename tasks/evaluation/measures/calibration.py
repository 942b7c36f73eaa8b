"""Whether `sigmoid(margin)` is the probability that it should be."""

import numpy as np

from tasks.evaluation.measures.intervals import (
    LEVELS,
    Interval,
    Resampling,
    cluster_bootstrap,
    lots,
)
from tasks.evaluation.tables.scores import Counts, Floats

CALIBRATION_BINS = 10


def calibration_bins(margin: Floats, preference: Floats | None = None) -> list[dict[str, float]]:
    """The reliability diagram: how often the side that the model prefers is the chosen one, by the
    model's confidence.

    Confidence is `sigmoid(|margin|)`, from 0.5 to 1, in ten bins; a tie is half right. Of a pair
    with preference q, the side preferred is right by q, or by 1 - q. Empty bins are left out.
    """
    confidence, right, bins = _confidence(margin, preference)
    return [
        {
            "pairs": int(inside.sum()),
            "confidence": float(confidence[inside].sum() / inside.sum()),
            "accuracy": float(right[inside].sum() / inside.sum()),
        }
        for inside in (bins == index for index in range(CALIBRATION_BINS))
        if inside.any()
    ]


def calibration_error(margin: Floats, preference: Floats | None = None) -> float:
    """Expected calibration error (Naeini et al. 2015; Guo et al. 2017, arXiv 1706.04599, equation
    3): mean gap of confidence and accuracy, bins weighted by pairs."""
    bins = calibration_bins(margin, preference)
    return sum(b["pairs"] * abs(b["confidence"] - b["accuracy"]) for b in bins) / len(margin)


def error_interval(
    margin: Floats, preference: Floats | None, group: Counts, how: Resampling
) -> Interval | None:
    """The 95 % interval of the calibration error: whole groups are drawn with replacement, and the
    bins' gaps are summed anew (cluster bootstrap, as in intervals.py; of many groups, lots).
    None for one group.

    A mean of absolute values: where the true error is near zero, so is no draw of it, and the
    interval lies above.
    """
    names, member = np.unique(group, return_inverse=True)
    if len(names) < 2:
        return None
    confidence, right, bins = _confidence(margin, preference)
    gaps = np.zeros((len(margin), CALIBRATION_BINS))
    gaps[np.arange(len(margin)), bins] = confidence - right
    drawn = np.abs(cluster_bootstrap(gaps, lots(member, how), how)).sum(axis=1)
    low, high = np.quantile(drawn, LEVELS)
    return float(low), float(high)


def _confidence(margin: Floats, preference: Floats | None) -> tuple[Floats, Floats, Counts]:
    """Of every pair: the model's confidence, how right it is, and the bin."""
    q = np.ones_like(margin) if preference is None else preference
    confidence = sigmoid(np.abs(margin))
    right = np.where(margin == 0, 0.5, np.where(margin > 0, q, 1 - q))
    bins = np.minimum((confidence - 0.5) * 2 * CALIBRATION_BINS, CALIBRATION_BINS - 1)
    return confidence, right, bins.astype(np.int64)


def softplus(x: Floats) -> Floats:
    """`log(1 + exp(x))`, without overflow."""
    return np.logaddexp(0.0, x)


def sigmoid(x: Floats) -> Floats:
    """`1 / (1 + exp(-x))`, without overflow."""
    return np.exp(-np.logaddexp(0.0, -x))
