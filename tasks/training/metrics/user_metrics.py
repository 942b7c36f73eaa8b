"""Checks and calls the user's `compute_metrics`, and checks `metric_for_best_model`."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from transformers import EvalPrediction
from transformers.trainer_utils import IntervalStrategy

from tasks.errors import ParamsError, meant, shown
from tasks.training.metrics.table import metric_names

TRAINER_METRICS = ("num_tokens", "runtime", "samples_per_second", "steps_per_second")
"""Metrics of every evaluation that are not computed from the pairs' rewards."""
Metrics = Callable[..., dict[str, Any]]
"""`compute_metrics(prediction)`; under `batch_eval_metrics` `(prediction, compute_result=bool)`."""


def check_metrics(metrics: Metrics | None, *, by_batch: bool) -> None:
    """Checks, before training, that an evaluation can call `compute_metrics`.

    Raises:
        ParamsError: its signature does not fit `batch_eval_metrics` (`by_batch`).
    """
    if metrics is None:
        return
    signature = inspect.signature(metrics)
    try:
        signature.bind(None, **_of_batch(by_batch, compute_result=True))
    except TypeError as error:
        expected = "(prediction, compute_result)" if by_batch else "(prediction)"
        called = (
            "after every batch, with compute_result=True after the last" if by_batch else "once"
        )
        raise ParamsError(
            f"compute_metrics has the signature {signature}; expected {expected} ({error}): "
            f"with batch_eval_metrics={by_batch} it is called {called}"
        ) from error


def check_best_metric(args: Any, rows: Any, *, own_loss: bool) -> None:
    """Checks that every evaluation of `rows` without `compute_metrics` has the best model's metric.

    Under a `compute_loss` of one's own (`own_loss`) there is no loss of a source.

    Raises:
        ParamsError: it is none of them; the message lists them.
    """
    wanted = args.metric_for_best_model
    if wanted is None or rows is None or args.eval_strategy == IntervalStrategy.NO:
        return
    parts: dict[str, Any] = rows if isinstance(rows, dict) else {"": rows}
    known = [
        f"eval_{key}_{name}" if key else f"eval_{name}"
        for key, part in parts.items()
        for name in (*metric_names(part), *TRAINER_METRICS)
        if not (own_loss and name.endswith("_loss"))
    ]
    name = wanted if wanted.startswith("eval_") else f"eval_{wanted}"
    if name not in known:
        raise ParamsError(
            f"metric_for_best_model is {wanted!r}, which not every evaluation gives; expected one "
            f"of {', '.join(known)}{meant(name, known, str)}"
        )


def call_metrics(
    metrics: Metrics, prediction: EvalPrediction, *, by_batch: bool, compute_result: bool
) -> Mapping[str, Any]:
    """The metrics that the function returns; empty if it returns None.

    Raises:
        ParamsError: it returns anything but a mapping.
    """
    values: Any = metrics(prediction, **_of_batch(by_batch, compute_result=compute_result))
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ParamsError(
            f"compute_metrics returned {shown(values)}; expected a mapping from name to number, "
            "such as {'wins': 0.5}"
        )
    return values  # pyright: ignore[reportUnknownVariableType]


def _of_batch(by_batch: bool, *, compute_result: bool) -> dict[str, bool]:
    return {"compute_result": compute_result} if by_batch else {}
