"""Whether `sigmoid(margin)` is the probability that it should be."""

import numpy as np

from tasks.evaluation.table import Floats

CALIBRATION_BINS = 10


def calibration_bins(margin: Floats, preference: Floats | None = None) -> list[dict[str, float]]:
    """The reliability diagram: how often the side that the model prefers is the chosen one, by the
    model's confidence.

    Confidence is `sigmoid(|margin|)`, from 0.5 to 1, in ten bins; a tie is half right. Of a pair
    with preference q, the side preferred is right by q, or by 1 - q. Empty bins are left out.
    """
    q = np.ones_like(margin) if preference is None else preference
    confidence = sigmoid(np.abs(margin))
    right = np.where(margin == 0, 0.5, np.where(margin > 0, q, 1 - q))
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


def calibration_error(margin: Floats, preference: Floats | None = None) -> float:
    """Expected calibration error (Naeini et al. 2015; Guo et al. 2017, arXiv 1706.04599, equation
    3): mean gap of confidence and accuracy, bins weighted by pairs."""
    bins = calibration_bins(margin, preference)
    return sum(b["pairs"] * abs(b["confidence"] - b["accuracy"]) for b in bins) / len(margin)


def softplus(x: Floats) -> Floats:
    """`log(1 + exp(x))`, without overflow."""
    return np.logaddexp(0.0, x)


def sigmoid(x: Floats) -> Floats:
    """`1 / (1 + exp(-x))`, without overflow."""
    return np.exp(-np.logaddexp(0.0, -x))
