"""Null models: judges that see only an answer's surface, and what they reach on the same pairs.

A reward model that is no better than these has learned nothing else. `position` sees only which
answer stood first in its row: a habit of whoever labelled the pairs, which no answer can show.
Those of `FITTED` are logistic regressions on the difference of the two answers' features, fitted
on pairs of the training split; the others need no fit. Legend: N pairs, F features.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.evaluation.measures.calibration import sigmoid
from tasks.evaluation.tables.scores import UNDECIDED, Floats
from tasks.evaluation.tables.surface import FEATURES, OPENINGS
from tasks.evaluation.tables.texts import Texts, text_table, texts_of

LENGTH, FORMAT = FEATURES[:1], FEATURES[1:]
CLASSES = tuple(name for name in OPENINGS if name != "none")
FIRST = "first"
FITTED: Mapping[str, tuple[str, ...]] = {
    "format": FORMAT,
    "opening": CLASSES,
    "surface": (*LENGTH, *FORMAT, *CLASSES),
    "position": (FIRST,),
}
"""Null models that are fitted, and what each sees."""
NOT_SURFACE = ("model", "first_tokens", "position")
"""Judges of the panel that are no null models of an answer's surface: the model itself, and the
place in the row, which may be no more than the order in which a file was written."""
RIDGE = 1.0
STEPS = 25


@dataclass(frozen=True)
class NullModel:
    """Weights of a fitted null model; its judgement is the sign of `features @ weights`."""

    features: tuple[str, ...]
    weights: tuple[float, ...]
    pairs: int
    """How many it was fitted on."""

    def margin(self, texts: Texts) -> Floats:
        """By how much it prefers the chosen answer, `[N]`."""
        found = differences(texts)
        columns = [found[name] for name in self.features]
        return np.stack(columns, axis=1) @ np.asarray(self.weights)


def fit_null_models(conversion: Path, pairs: int) -> dict[str, NullModel]:
    """The models of `FITTED`, from the `pairs` decided training pairs with the smallest ids, which
    are a random sample, for an id is a hash; no model where no pair was left."""
    trained_on = (pc.field("split") == "train") & (pc.field("preference") != UNDECIDED)
    keys = pq.read_table(conversion / "pairs", columns=["pair_id", "source"], filters=trained_on)
    chosen = nsmallest(pairs, zip(*(column.to_pylist() for column in keys.columns), strict=True))
    if not chosen:
        return {}
    texts = texts_of(text_table(conversion, chosen, split="train"))
    found = differences(texts)
    return {
        name: NullModel(features, tuple(fit([found[f] for f in features]).tolist()), len(chosen))
        for name, features in FITTED.items()
    }


def best_null_model(found: Mapping[str, Mapping[str, Any]]) -> tuple[str, float] | None:
    """The null model of an answer's surface that is right most often, of `bias.null_models`."""
    accuracies = {
        name: float(figures["accuracy"])
        for name, figures in found.items()
        if name not in NOT_SURFACE and figures["accuracy"] is not None
    }
    if not accuracies:
        return None
    best = max(accuracies, key=accuracies.__getitem__)
    return best, accuracies[best]


def differences(texts: Texts) -> dict[str, Floats]:
    """Chosen less rejected, per feature `[N]`: log(1 + count), 0 or 1 for an opening; and 1, -1 or
    0 for who stood first."""
    counts = np.log1p(texts.chosen) - np.log1p(texts.rejected)
    found = {name: counts[:, i] for i, name in enumerate(FEATURES)}
    for name in CLASSES:
        first, second = texts.chosen_opening == name, texts.rejected_opening == name
        found[name] = first.astype(np.float64) - second.astype(np.float64)
    return found | {FIRST: texts.first}


def fit(columns: list[Floats]) -> Floats:
    """Weights `[F]` with the least sum of log(1 + exp(-x w)) + RIDGE/2 |w|^2, over differences
    `x [N, F]`.

    Logistic regression without an intercept (swapping both sides of a pair must mirror it), by
    Newton's method (Hastie et al. 2009, section 4.4.1); the ridge keeps the weights finite where a
    feature separates the pairs.
    """
    x = np.stack(columns, axis=1)
    weights = np.zeros(x.shape[1])
    for _ in range(STEPS):
        wrong = sigmoid(-(x @ weights))
        gradient = RIDGE * weights - x.T @ wrong
        curvature = (x * (wrong * (1 - wrong))[:, None]).T @ x + RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-10:
            break
    return np.round(weights, 9)  # what is below is noise of the solver


def described(model: NullModel) -> dict[str, Any]:
    """What a model was made of, for the record."""
    weights = dict(zip(model.features, model.weights, strict=True))
    return {"fitted_on": model.pairs, "weights": weights}
