"""How good is the reward model: per-pair scores of held-out pairs, and every figure from them.

In: the reward model directory and the tokenized pairs. Out: `scores.parquet`, `metrics.json` and
two plots. Names are handed out lazily, so that importing the package does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.evaluation.metrics import all_metrics, metrics_of
    from tasks.evaluation.params import EvaluationParams
    from tasks.evaluation.score import RewardScorer, score_pairs
    from tasks.evaluation.task import step

__all__ = [
    "EvaluationParams",
    "RewardScorer",
    "all_metrics",
    "metrics_of",
    "score_pairs",
    "step",
]

_HOMES = {
    "EvaluationParams": "params",
    "RewardScorer": "score",
    "all_metrics": "metrics",
    "metrics_of": "metrics",
    "score_pairs": "score",
    "step": "task",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
