"""Evaluation as a step: scores every held-out pair, then writes figures and plots.

The pairs are scored window by window; a killed evaluation keeps its finished windows.
"""

import logging
from functools import partial
from typing import Any

from tasks.artifact import Artifact, Step, Workspace
from tasks.evaluation.params import EvaluationParams

logger = logging.getLogger(__name__)

VERSION = 1
SHELF = "6_evaluation"
SPLIT = "eval"


def step(params: EvaluationParams, training: Artifact, tokenization: Artifact) -> Step:
    """The evaluation of a trained model on the held-out pairs."""
    return Step(
        stage="evaluation",
        version=VERSION,
        shelf=SHELF,
        params=params,
        inputs={"training": training, "tokenization": tokenization},
        build=partial(build, params, training, tokenization),
        libraries=("torch", "transformers"),
    )


def build(
    params: EvaluationParams, training: Artifact, tokenization: Artifact, workspace: Workspace
) -> None:
    """Writes `scores.parquet`, `metrics.json` and `plots/`.

    Raises:
        DataError: no pair is held out.
        ModelError: the model cannot be loaded, or a reward is no finite number.
    """
    from tasks.evaluation.metrics import all_metrics
    from tasks.evaluation.plots import plot_margins, plot_rewards
    from tasks.evaluation.table import read_scores

    how = _score(params, training, tokenization, workspace)
    scores = read_scores(workspace.path / "scores.parquet")
    metrics = all_metrics(scores)
    workspace.write_json("metrics.json", metrics)
    for name, plot in (("rewards", plot_rewards), ("margins", plot_margins)):
        with workspace.writing(f"plots/{name}.png") as path:
            plot(scores, path, params.histogram_bins)
    workspace.report.update(rows=len(scores), metrics=metrics["overall"], scoring=how)


def _score(
    params: EvaluationParams, training: Artifact, tokenization: Artifact, workspace: Workspace
) -> dict[str, Any]:
    """Writes `scores.parquet`; returns how the rewards were computed."""
    import pyarrow.parquet as pq
    import torch
    from tqdm import tqdm

    from tasks.errors import DataError
    from tasks.evaluation.score import RewardScorer, read_windows, score_window, split_files
    from tasks.evaluation.table import SCHEMA

    files = split_files(tokenization.path, SPLIT)
    scorer = RewardScorer(
        training.path / "model", batch_size=params.batch_size, device=params.device
    )
    parts: list[str] = []
    with tqdm(desc="evaluation", unit=" pairs", disable=None, leave=False) as progress:
        for index, window in enumerate(read_windows(files)):
            unit = f"scores-{index:05d}"
            if workspace.finished(unit) is None:
                with workspace.writing(f"scratch/{unit}.parquet") as path:
                    pq.write_table(score_window(scorer, window, SPLIT), path)
                workspace.finish(unit, {"pairs": len(window)})
            parts.append(unit)
            progress.update(len(window))
    if not parts:
        raise DataError(
            f"{tokenization.path / SPLIT} holds no pair, expected at least one to evaluate on; "
            "raise conversion.eval_fraction or add data"
        )
    with (
        workspace.writing("scores.parquet") as path,
        pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer,
    ):
        for unit in parts:
            writer.write_table(pq.read_table(workspace.scratch / f"{unit}.parquet"))
    return {
        "device": scorer.device,
        "batch_size": params.batch_size,
        "threads": torch.get_num_threads(),
    }
