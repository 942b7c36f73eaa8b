"""What is logged to the MLflow run of a model: params, metrics, plots, datasets, lineage.

All of it may be repeated: what the run has already stays as it is.
"""

import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tasks.artifact import Artifact, canonical, part_digest
from tasks.artifact.record import read_artifact
from tasks.evaluation.measures.metrics import flat
from tasks.ingestion.redaction import LEFT_OUT, is_secret_name, redacted
from tasks.registration.lineage import LINEAGE, input_directory, write_trained_on
from tasks.registration.subject import Subject
from tasks.registration.tags import lineage_tags
from tasks.registration.tracking import METRICS_PER_CALL, log_history, mlflow_name

if TYPE_CHECKING:
    from mlflow import MlflowClient

PARAMS_PER_CALL = 100
PARAM_LENGTH = 6000
LONGEST_LIST = 50
"""Entries of a list that become params of their own. MLflow reads all that a run has at each call:
a thousand sources took it minutes, and nobody reads them in a table."""
DATASET_DIGEST_LENGTH = 36
EVALUATION_FILES = (
    "metrics.json",
    "scores.parquet",
    "suspects.csv",
    "report.html",
    "benchmarks.json",
)
BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
KEYS = re.compile(r"\b(hf_[A-Za-z0-9]{16,}|gh[pousr]_\w{20,}|sk-[\w-]{16,}|AKIA[0-9A-Z]{16})\b")


def log_facts(
    client: "MlflowClient",
    run_id: str,
    subject: Subject,
    context: Mapping[str, Any],
) -> None:
    """Logs all that is known of a model to its run.

    `context["params"]` holds all stages' params; what else is in it goes into `pipeline.json`.
    """
    from mlflow.entities import RunTag

    training, evaluation, tokenization = subject.training, subject.evaluation, subject.tokenization
    log_history(client, run_id, training.path / "metrics.jsonl")
    lineage = stage_keys(training, evaluation, tokenization)
    tags = lineage_tags(lineage, training) | {"model_digest": subject.digest}
    client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])
    _log_params(client, run_id, context)
    _log_metrics(client, run_id, evaluation)
    _log_datasets(client, run_id, tokenization)
    for path in sorted((evaluation.path / "plots").glob("*.png")):
        client.log_artifact(run_id, str(path), "plots")
    for name in EVALUATION_FILES:
        if (evaluation.path / name).is_file():
            client.log_artifact(run_id, str(evaluation.path / name), "evaluation")
    if (evaluation.path / "benchmarks").is_dir():
        client.log_artifacts(run_id, str(evaluation.path / "benchmarks"), "evaluation/benchmarks")
    trained_on = write_trained_on(tokenization, subject.scratch / "lineage")
    client.log_artifact(run_id, str(trained_on), LINEAGE)


def stage_keys(*artifacts: Artifact) -> dict[str, str]:
    """`{stage: key}` of these artifacts and of all that they were made from."""
    keys: dict[str, str] = {}
    waiting = list(artifacts)
    while waiting:
        artifact = waiting.pop()
        keys[artifact.stage] = artifact.key
        for entry in artifact.record["inputs"].values():
            if entry["stage"] in keys:
                continue
            keys[entry["stage"]] = entry["key"]
            found = read_artifact(input_directory(artifact.path, entry))
            if isinstance(found, Artifact):
                waiting.append(found)
    return dict(sorted(keys.items()))


def flattened(value: Any, path: str = "") -> dict[str, str]:
    """`{dotted name: text}` of nested params, without secrets (see `without_credentials`)."""
    if isinstance(value, Mapping) and value:
        items = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list) and value:
        items = [(str(index), inner) for index, inner in enumerate(value)]
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown = LEFT_OUT if value is not None and _is_secret(path) else without_credentials(text)
        return {mlflow_name(path): shown[:PARAM_LENGTH]}
    flat_items: dict[str, str] = {}
    for key, inner in items:
        flat_items |= flattened(inner, f"{path}.{key}" if path else key)
    return flat_items


def without_credentials(text: str) -> str:
    """The text as `redacted` gives it, and without bearer tokens, API keys, and the value of an
    override `dotted.key=value` whose key names a secret."""
    key, equals, _ = text.partition("=")
    if equals and "://" not in key and _is_secret(key):
        return f"{key}={LEFT_OUT}"
    return KEYS.sub(LEFT_OUT, BEARER.sub(rf"\1 {LEFT_OUT}", redacted(text)))


def _is_secret(path: str) -> bool:
    """By the last of its names; `key` alone is an artifact's here, and a store's was refused."""
    name = path.rpartition(".")[2]
    return name != "key" and is_secret_name(name)


def _log_params(client: "MlflowClient", run_id: str, context: Mapping[str, Any]) -> None:
    """Logs the params, long lists by their length, and the whole context as `pipeline.json`.

    MLflow lets no param change: where a later registration differs, the file tells.
    """
    from mlflow.entities import Param

    everything = canonical(context)
    named = flattened(_without_long_lists(everything["params"])) if everything.get("params") else {}
    known = client.get_run(run_id).data.params
    new = [Param(name, text) for name, text in named.items() if name not in known]
    for start in range(0, len(new), PARAMS_PER_CALL):
        client.log_batch(run_id, params=new[start : start + PARAMS_PER_CALL])
    client.log_dict(run_id, flattened(everything), "pipeline.json")


def _without_long_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_long_lists(inner) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > LONGEST_LIST:
        return f"{len(value)} entries, all of them in pipeline.json"
    return [_without_long_lists(inner) for inner in value]


def _log_metrics(client: "MlflowClient", run_id: str, evaluation: Artifact) -> None:
    """The evaluation's figures as `evaluation.<name>`; one that stands already is not repeated."""
    from mlflow.entities import Metric

    known = client.get_run(run_id).data.metrics
    figures = flat(json.loads((evaluation.path / "metrics.json").read_bytes()))
    named = {mlflow_name(f"evaluation.{name}"): value for name, value in figures.items()}
    now = int(time.time() * 1000)
    new = [Metric(n, float(v), now, 0) for n, v in named.items() if known.get(n) != v]
    for start in range(0, len(new), METRICS_PER_CALL):
        client.log_batch(run_id, metrics=new[start : start + METRICS_PER_CALL])


def _log_datasets(client: "MlflowClient", run_id: str, tokenization: Artifact) -> None:
    """The two splits as datasets of the run, each with the digest of its files."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    client.log_inputs(
        run_id,
        [
            DatasetInput(
                Dataset(
                    name=f"pairs-{split}",
                    digest=part_digest(tokenization, split)[:DATASET_DIGEST_LENGTH],
                    source_type="local",
                    source=json.dumps({"uri": str(tokenization.path / split)}),
                ),
                [InputTag("mlflow.data.context", use)],
            )
            for split, use in (("train", "training"), ("eval", "evaluation"))
        ],
    )
