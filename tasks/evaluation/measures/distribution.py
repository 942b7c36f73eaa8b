"""Where the rewards lie: quantiles of both sides and of the margin, and the scale RL will see."""

from typing import Any

import numpy as np

from tasks.evaluation.tables.scores import Floats, Scores

QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


def reward_distribution(scores: Scores) -> dict[str, Any]:
    """`{levels: [...], chosen: {mean, std, quantiles}, rejected, all, margin}`.

    `all` is over every side of every pair; its mean and deviation are what a consumer subtracts and
    divides by. The others leave out pairs without a better side, whose order says nothing.
    Quantiles are interpolated linearly.
    """
    decided = scores.take(scores.decided)
    values = {
        "chosen": decided.chosen,
        "rejected": decided.rejected,
        "all": np.concatenate([scores.chosen, scores.rejected]),
        "margin": decided.margin,
    }
    return {"levels": list(QUANTILES)} | {name: _described(v) for name, v in values.items()}


def _described(values: Floats) -> dict[str, Any]:
    return {
        "mean": float(values.sum() / len(values)),
        "std": float(values.std()),
        "quantiles": np.quantile(values, QUANTILES).tolist(),
    }
