"""A new model beside the old one, on the same pairs: agreement, drift, and the map between scales.

RL's coefficients (of the KL penalty, of reward clipping) are tuned to one scale of rewards. A
retrained model has another: `slope * new + intercept` carries it over. The answers of both tables
are the anchor set. Two such maps: least squares, the best guess of the old reward, whose deviation
is smaller by the correlation of the two; and the one with the old mean and deviation, which keeps
the scale through any number of retrainings. Legend: N pairs, 2N rewards.
"""

from typing import Any

import numpy as np

from tasks.errors import DataError
from tasks.evaluation.measures.distribution import QUANTILES
from tasks.evaluation.tables.scores import Counts, Floats, Scores


def against_champion(scores: Scores, champion: Scores) -> dict[str, Any]:
    """`{agreement, drift, scale}` of a model and the champion, each in the same pairs' rewards.

    agreement  share of pairs with the same verdict; Kendall's tau of margins and of rewards
    drift      new less old: of mean, deviation, and each quantile
    scale      new_to_old and old_to_new, by least squares `{slope, intercept, r2, residual_std}`;
               matched `{slope, intercept}`, to the old mean and deviation, None where the rewards
               do not rise together; and `answers`

    Raises:
        DataError: the two tables are not of the same pairs.
    """
    scores, champion = scores.take(scores.order()), champion.take(champion.order())
    if not np.array_equal(scores.pair_id, champion.pair_id):
        raise DataError(
            f"the champion scored {len(champion)} pairs and the model {len(scores)}, which are not "
            "the same ones; score both on one held-out split"
        )
    new = np.concatenate([scores.chosen, scores.rejected])
    old = np.concatenate([champion.chosen, champion.rejected])
    shift = np.quantile(new, QUANTILES) - np.quantile(old, QUANTILES)
    return {
        "agreement": {
            "pairs": len(scores),
            "same_verdict": float((np.sign(scores.margin) == np.sign(champion.margin)).mean()),
            "tau_margins": kendall_tau(scores.margin, champion.margin),
            "tau_rewards": kendall_tau(new, old),
        },
        "drift": {
            "mean": float(new.mean() - old.mean()),
            "std": float(new.std() - old.std()),
            "levels": list(QUANTILES),
            "quantiles": shift.tolist(),
        },
        "scale": {
            "answers": len(new),
            "new_to_old": affine_map(new, old),
            "old_to_new": affine_map(old, new),
            "matched": matched_map(new, old),
        },
    }


def affine_map(x: Floats, y: Floats) -> dict[str, float | None]:
    """Least squares `y = slope x + intercept`, its R2 and the deviation of its residuals; slope 0
    where x is constant, R2 None where y is."""
    dx, dy = x - x.mean(), y - y.mean()
    scale = float((dx**2).sum())
    slope = float((dx * dy).sum()) / scale if scale else 0.0
    unexplained, whole = float(((dy - slope * dx) ** 2).sum()), float((dy**2).sum())
    return {
        "slope": slope,
        "intercept": float(y.mean() - slope * x.mean()),
        "r2": 1 - unexplained / whole if whole else None,
        "residual_std": float(np.sqrt(unexplained / len(x))),
    }


def matched_map(x: Floats, y: Floats) -> dict[str, float] | None:
    """`slope x + intercept` with the mean and the deviation of y (the reduced major axis); None
    unless x and y are positively correlated: a map that turns the order round carries no reward."""
    if not float(((x - x.mean()) * (y - y.mean())).sum()) > 0:
        return None
    slope = float(y.std() / x.std())
    return {"slope": slope, "intercept": float(y.mean() - slope * x.mean())}


def kendall_tau(x: Floats, y: Floats) -> float | None:
    """Kendall's tau-b (1945), which corrects for ties; None where either side is constant.

    (P - Q) / sqrt((n0 - tx) (n0 - ty)), for P concordant and Q discordant of n0 pairs, tx and ty of
    which are tied in x and in y. By Knight's (1966) way: sort by x, count inversions of y.
    """
    n = len(x)
    a, b = (np.unique(values, return_inverse=True)[1].astype(np.int64) for values in (x, y))
    discordant = _inversions(b[np.lexsort((b, a))])
    every = n * (n - 1) // 2
    tied_x, tied_y, tied_both = _tied(a), _tied(b), _tied(a * (int(b.max()) + 1) + b)
    scale = float(every - tied_x) * float(every - tied_y)
    agreeing = every - tied_x - tied_y + tied_both - 2 * discordant
    return agreeing / float(np.sqrt(scale)) if scale else None


def _tied(values: Counts) -> int:
    """Pairs of equal values."""
    counts = np.unique(values, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _inversions(ranks: Counts) -> int:
    """Pairs i < j with ranks[i] > ranks[j], bit by bit from the highest: within the numbers that
    agree in all higher bits, each one that comes before a zero is an inversion."""
    found, block = 0, np.zeros(len(ranks), np.int64)
    for bit in reversed(range(int(ranks.max()).bit_length())):
        one = (ranks >> bit) & 1
        ones = np.cumsum(one)
        begins = np.searchsorted(block, block)  # blocks are contiguous and ascend
        earlier = ones - (ones[begins] - one[begins])  # ones of the own block, up to here
        found += int(earlier[one == 0].sum())
        order = np.lexsort((one, block))  # stable: zeros of a block first, in their order
        ranks = ranks[order]
        block = 2 * block[order] + one[order]
    return found
