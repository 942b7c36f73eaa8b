"""Where the rewards lie: quantiles of both sides and of the margin, and the scale RL will see."""

from typing import Any

import numpy as np

from tasks.evaluation.tables.scores import Floats, Scores

QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


def reward_distribution(scores: Scores) -> dict[str, Any]:
    """`{levels: [...], chosen: {mean, std, quantiles}, rejected, all, margin}`.

    `all` is over every side of every pair; its mean and deviation are what a consumer subtracts and
    divides by. Quantiles are interpolated linearly.
    """
    rewards = np.concatenate([scores.chosen, scores.rejected])
    sides = {"chosen": scores.chosen, "rejected": scores.rejected, "all": rewards}
    found = {name: _described(values) for name, values in sides.items()}
    return {"levels": list(QUANTILES), **found, "margin": _described(scores.margin)}


def _described(values: Floats) -> dict[str, Any]:
    return {
        "mean": float(values.sum() / len(values)),
        "std": float(values.std()),
        "quantiles": np.quantile(values, QUANTILES).tolist(),
    }
