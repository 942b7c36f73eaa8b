"""Evaluation as a step: scores every held-out pair and the benchmarks, then writes tables,
figures, plots and the report.

The pairs are scored window by window; a killed evaluation keeps its finished windows.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tasks.artifact import Artifact, Step, Workspace, canonical
from tasks.errors import ParamsError
from tasks.evaluation.params import EvaluationParams

if TYPE_CHECKING:
    from tasks.ingestion.places.files import SourceFile

logger = logging.getLogger(__name__)

VERSION = 20
SHELF = "6_evaluation"


def step(
    params: EvaluationParams,
    training: Artifact,
    tokenization: Artifact,
    conversion: Artifact | None = None,
    ingestion: Artifact | None = None,
) -> Step:
    """The evaluation of a trained model on the held-out pairs.

    `conversion` holds the texts of the pairs that were tokenized; without it, figures that need
    texts or prompts are left out. `ingestion` holds the rows whose columns `slice_by` names; only
    where it names one are they read, and in the key. The benchmarks' files are matched and hashed
    here.

    Raises:
        DataError: a benchmark's path matches no data file.
    """
    texts = {"conversion": conversion} if conversion else {}
    rows = {"ingestion": ingestion} if ingestion and params.slice_by else {}
    files = benchmarks_found(params)
    return Step(
        stage="evaluation",
        version=VERSION,
        shelf=SHELF,
        params=params,
        inputs={"training": training, "tokenization": tokenization, **texts, **rows},
        build=partial(
            build, params, files, training, tokenization, conversion, rows.get("ingestion")
        ),
        libraries=("torch", "transformers"),
        files={
            f"{label}/{file.name}": file.digest for label, each in files.items() for file in each
        },
    )


def benchmarks_found(params: EvaluationParams) -> "dict[str, list[SourceFile]]":
    """The files of every benchmark, by its label.

    Raises:
        DataError: one of them has none.
    """
    if not params.benchmarks:
        return {}
    from tasks.evaluation.benchmarks.files import benchmark_files

    return {benchmark.label: benchmark_files(benchmark) for benchmark in params.benchmarks}


def check_device(params: EvaluationParams) -> None:
    """Refuses a device that is asked for, and on which torch cannot compute here.

    Raises:
        ParamsError: as above.
    """
    if params.device is None or params.device == "cpu":
        return
    from tasks.training.model.device import check_device as tried

    try:
        tried(params.device)
    except ValueError as error:
        raise ParamsError(f"evaluation.device: {error}") from None


def build(
    params: EvaluationParams,
    files: "Mapping[str, Sequence[SourceFile]]",
    training: Artifact,
    tokenization: Artifact,
    conversion: Artifact | None,
    ingestion: Artifact | None,
    workspace: Workspace,
) -> None:
    """Writes the tables, `metrics.json`, `plots/` and `report.html`; the package's docstring lists
    them.

    Raises:
        DataError: no pair is held out, none has a better side, texts are of other pairs, or a
            benchmark's row is not of its schema.
        ModelError: the model cannot be loaded, or a reward is no finite number.
    """
    check_device(params)
    from tasks.evaluation.benchmarks.files import items_of
    from tasks.evaluation.benchmarks.passes import BenchmarkPasses
    from tasks.evaluation.figures import write_figures
    from tasks.evaluation.report.writing import write_pages
    from tasks.evaluation.scoring.passes import Passes
    from tasks.evaluation.tables.scores import read_scores

    # Read first: a wrong file is told before the model has worked for hours.
    items = [(each, items_of(each, files[each.label])) for each in params.benchmarks]
    passes = Passes(params, training.path / "model", tokenization.path, workspace)
    texts = conversion.path if conversion else None
    passes.run(texts)
    if conversion and ingestion:
        _write_row_columns(params, ingestion, workspace)
    found: dict[str, Any] = {}
    if items:
        benchmarks = BenchmarkPasses(params, items, passes.scorer, tokenization.path, workspace)
        found = benchmarks.run(texts, f"reward-model-{training.key}")
    scores = read_scores(workspace.path / "scores.parquet")
    metrics = write_figures(params, scores, texts, found, workspace)
    inputs = [each for each in (training, tokenization, conversion) if each]
    provenance = {
        "Inputs": {each.stage: {"key": each.key, "digest": each.digest} for each in inputs},
        "Evaluation": {"version": VERSION, "params": canonical(params)},
    }
    write_pages(scores, metrics, params.histogram_bins, texts, provenance, workspace)
    for concern in metrics["warnings"]:
        logger.warning("%s: %s", concern["figure"], concern["message"])
    workspace.report.update(_reported(metrics) | {"scoring": passes.how})


def _reported(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What the artifact's record says of the figures."""
    from tasks.evaluation.benchmarks.results import headline_of

    overall, benchmarks = metrics["overall"], metrics.get("benchmarks", {})
    report: dict[str, Any] = {
        "rows": overall["pairs"] + overall["undecided"],
        "metrics": overall,
        "warnings": [concern["message"] for concern in metrics["warnings"]],
    }
    if benchmarks:
        report["benchmarks"] = {label: headline_of(each) for label, each in benchmarks.items()}
    return report


def check_slices(params: EvaluationParams, conversion: Artifact, ingestion: Artifact) -> None:
    """Refuses columns in `slice_by` that no row of a held-out pair has.

    Raises:
        DataError: as above.
    """
    if not params.slice_by:
        return
    import pyarrow.parquet as pq

    from tasks.evaluation.tables.row_columns import PLACE, labels_at, places_of

    held_out = [("split", "=", "eval")]
    rows = pq.read_table(conversion.path / "pairs", columns=[*PLACE], filters=held_out)
    labels_at(ingestion, places_of(rows), params.slice_by)


def check_decided(tokenization: Artifact) -> None:
    """Refuses held-out pairs that are all ties.

    Raises:
        DataError: as above.
    """
    from tasks.evaluation.measures.metrics import none_decided
    from tasks.evaluation.scoring.windows import read_windows, split_files
    from tasks.evaluation.tables.scores import UNDECIDED

    pairs = 0
    for window in read_windows(split_files(tokenization.path)):
        if (window["preference"].to_numpy() != UNDECIDED).any():
            return
        pairs += len(window)
    raise none_decided(pairs)


def _write_row_columns(params: EvaluationParams, ingestion: Artifact, workspace: Workspace) -> None:
    import pyarrow.parquet as pq

    from tasks.evaluation.tables.row_columns import row_column_table

    texts = pq.read_table(workspace.path / "texts.parquet")
    labels = row_column_table(ingestion, texts, params.slice_by)
    with workspace.writing("row_columns.parquet") as path:
        pq.write_table(labels, path, compression="zstd")
