"""From the tables to `metrics.json` and the table of suspects: no model is needed any more."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks.artifact import Workspace
from tasks.evaluation.benchmarks.concerns import benchmark_warnings
from tasks.evaluation.measures.bias import Judges
from tasks.evaluation.measures.intervals import Resampling
from tasks.evaluation.measures.metrics import all_metrics
from tasks.evaluation.measures.null_models import fit_null_models
from tasks.evaluation.measures.suspects import suspect_table, write_csv
from tasks.evaluation.params import EvaluationParams
from tasks.evaluation.tables.row_columns import labels_of
from tasks.evaluation.tables.scores import Floats, Scores
from tasks.evaluation.tables.texts import read_texts


def write_figures(
    params: EvaluationParams,
    scores: Scores,
    conversion: Path | None,
    benchmarks: Mapping[str, Any],
    workspace: Workspace,
) -> dict[str, Any]:
    """Writes `metrics.json`, `suspects.parquet` and `suspects.csv`; returns the metrics, as JSON
    gives them back. `benchmarks` is `{label: figures}`.

    Raises:
        DataError: no held-out pair has a better side.
    """
    directory = workspace.path
    probes, columns = directory / "probes.parquet", directory / "row_columns.parquet"
    metrics = all_metrics(
        scores,
        read_texts(directory / "texts.parquet") if conversion else None,
        Resampling(params.resamples, params.seed),
        judges=_judges(params, scores, conversion, directory),
        probes=pq.read_table(probes) if probes.is_file() else None,
        columns=labels_of(pq.read_table(columns)) if columns.is_file() else None,
    )
    if benchmarks:
        metrics["warnings"] += benchmark_warnings(benchmarks)
        metrics["benchmarks"] = dict(benchmarks)
    workspace.write_json("metrics.json", metrics)
    if conversion and params.suspects:
        suspects = suspect_table(scores, conversion, params.suspects)
        with workspace.writing("suspects.parquet") as path:
            pq.write_table(suspects, path, compression="zstd")
        with workspace.writing("suspects.csv") as path:
            write_csv(suspects, path)
    return json.loads(json.dumps(metrics))


def _judges(
    params: EvaluationParams, scores: Scores, conversion: Path | None, directory: Path
) -> Judges:
    fitted = fit_null_models(conversion, params.null_model_pairs) if conversion else {}
    margin = None if params.first_tokens is None else _first_margin(directory)
    assert margin is None or len(margin) == len(scores)
    return Judges(params.first_tokens, margin, fitted)


def _first_margin(directory: Path) -> Floats:
    table = pq.read_table(directory / "truncated.parquet")
    sides = [table[f"reward_{side}"].to_numpy() for side in ("chosen", "rejected")]
    return (sides[0] - sides[1]).astype(float)
