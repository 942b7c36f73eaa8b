"""Evaluation as a step: scores every held-out pair, then writes tables, figures and plots.

The pairs are scored window by window; a killed evaluation keeps its finished windows.
"""

import logging
from functools import partial
from typing import Any

from tasks.artifact import Artifact, Step, Workspace
from tasks.evaluation.params import EvaluationParams

logger = logging.getLogger(__name__)

VERSION = 2
SHELF = "6_evaluation"


def step(
    params: EvaluationParams,
    training: Artifact,
    tokenization: Artifact,
    conversion: Artifact | None = None,
) -> Step:
    """The evaluation of a trained model on the held-out pairs.

    `conversion` holds the texts of the pairs that were tokenized; without it, figures that need
    texts or prompts are left out.
    """
    texts = {"conversion": conversion} if conversion else {}
    return Step(
        stage="evaluation",
        version=VERSION,
        shelf=SHELF,
        params=params,
        inputs={"training": training, "tokenization": tokenization, **texts},
        build=partial(build, params, training, tokenization, conversion),
        libraries=("torch", "transformers"),
    )


def build(
    params: EvaluationParams,
    training: Artifact,
    tokenization: Artifact,
    conversion: Artifact | None,
    workspace: Workspace,
) -> None:
    """Writes the tables, `metrics.json` and `plots/`; the package's docstring lists them.

    Raises:
        DataError: no pair is held out, none has a better side, or texts are of other pairs.
        ModelError: the model cannot be loaded, or a reward is no finite number.
    """
    from tasks.evaluation.figures import write_figures
    from tasks.evaluation.passes import Passes
    from tasks.evaluation.plots import plot_margins, plot_rewards
    from tasks.evaluation.table import read_scores

    passes = Passes(params, training.path / "model", tokenization.path, workspace)
    passes.run(conversion.path if conversion else None)
    metrics = write_figures(params, conversion.path if conversion else None, workspace)
    scores = read_scores(workspace.path / "scores.parquet")
    for name, plot in (("rewards", plot_rewards), ("margins", plot_margins)):
        with workspace.writing(f"plots/{name}.png") as path:
            plot(scores, path, params.histogram_bins)
    for concern in metrics["warnings"]:
        logger.warning("%s: %s", concern["figure"], concern["message"])
    report: dict[str, Any] = {
        "rows": len(scores),
        "metrics": metrics["overall"],
        "scoring": passes.how,
        "warnings": [concern["message"] for concern in metrics["warnings"]],
    }
    workspace.report.update(report)
