"""MLflow's runs: where they are kept, the one run of a training, and its metrics as they come.

    mlruns/mlflow.db      runs and registry (SQLite), unless `tracking_uri` says otherwise
    mlruns/artifacts/     models, plots

A training has one run, found by its key: a killed one is taken up again. A step of a metric is
logged once, however often training was interrupted. MLflow that fails does not stop training: what
is missing is logged at registration, from the artifact's `metrics.jsonl`.
"""

import json
import logging
import math
import posixpath
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifact.durable import TEMPORARY_SUFFIX, writing
from tasks.artifact.lock import locked
from tasks.registration.address import SQLITE, database_path, store_directory, store_uri
from tasks.registration.experiment import experiment_for
from tasks.registration.params import RegistrationParams
from tasks.registration.quiet import prepare_environment, quietly

if TYPE_CHECKING:
    from mlflow import MlflowClient

TRAINING_KEY = "training_key"
LAST_SEQUENCE = "last_sequence"
"""Tag of the registered model: the place that was drawn last in the order of runs."""
STEP_NAMES = ("step", "global_step")
NO_METRICS = (*STEP_NAMES, "max_steps", "time")
"""Of a record: its place, and a clock, which MLflow keeps with every point."""
METRICS_PER_CALL = 1000
NAME_LENGTH = 250
UNNAMEABLE = re.compile(r"[^\w.\- /]")
"""Characters that MLflow takes in no name of a param or metric."""

Points = set[tuple[str, int]]


def client_for(params: RegistrationParams, root: Path) -> "MlflowClient":
    """A client of the store; nothing is sent anywhere else, and nothing is printed."""
    prepare_environment()
    for chatty in ("mlflow.store.model_registry", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # what is refused, this one tells with two tracebacks, and raises it, too
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    uri = store_uri(params, root)
    with quietly():
        import mlflow
        from mlflow import MlflowClient

        if database := database_path(uri):
            make_database(database)
        # A client's own address is not enough: the SQLite registry looks models up globally.
        mlflow.set_tracking_uri(uri)
        mlflow.set_registry_uri(uri)
        return MlflowClient(tracking_uri=uri, registry_uri=uri)


def make_database(database: Path) -> None:
    """MLflow's database, with all of its tables or not there at all.

    MLflow makes it by some sixty migrations. One that is killed between two of them leaves a file
    that no later run can use or mend; so they run on a file beside it, which then takes its place.
    """
    if database.exists():
        return
    from mlflow import MlflowClient

    with locked(database.parent / ".locks" / "database", "MLflow's database"):
        if database.exists():
            return
        for torn in database.parent.glob(f"{database.name}{TEMPORARY_SUFFIX}*"):
            torn.unlink()
        with writing(database) as temporary:
            # MLflow keeps what it opened, by name: one that failed is not to be met again.
            fresh = temporary.with_name(f"{temporary.name}-{time.time_ns()}")
            fresh.touch()  # as the umask says: SQLite's own are for their maker to write to
            uri = f"{SQLITE}{fresh}"
            client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            client.search_experiments(max_results=1)
            client.search_registered_models(max_results=1)
            fresh.rename(temporary)


def run_for(client: "MlflowClient", params: RegistrationParams, root: Path, key: str) -> str:
    """The id of the one run of the training with this key; RUNNING, whatever became of it.

    A new run draws its place in the order of runs, as it begins.
    """
    with locked(store_directory(params, root) / ".locks" / "runs", "the MLflow run"):
        experiment = experiment_for(client, params, root)
        found = client.search_runs(
            [experiment], f"tags.{TRAINING_KEY} = '{key}'", order_by=["attributes.start_time ASC"]
        )
        if not found:
            tags = {TRAINING_KEY: key, "mlflow.source.name": "reward-pipeline"}
            tags[_sequence_tag(params)] = str(_draw_sequence(client, params))
            run = client.create_run(experiment, tags=tags, run_name=f"training-{key[:8]}")
            return run.info.run_id
    run_id = found[0].info.run_id
    if found[0].info.status != "RUNNING":
        client.update_run(run_id, status="RUNNING")
    return run_id


def sequence_of(client: "MlflowClient", params: RegistrationParams, run_id: str) -> int:
    """The run's place in the order in which runs of this model began: 1, 2, ...

    One checkout, or all on one SQLite file, draw different places. On a server two runs that begin
    in the same instant may draw the same one; then the later version counts as newer.
    """
    tags = client.get_run(run_id).data.tags
    if _sequence_tag(params) not in tags:  # its run was begun for another registered model
        tags = {_sequence_tag(params): str(_draw_sequence(client, params))}
        client.set_tag(run_id, *next(iter(tags.items())))
    return int(tags[_sequence_tag(params)])


def _sequence_tag(params: RegistrationParams) -> str:
    return f"sequence.{params.model_name}"


def _draw_sequence(client: "MlflowClient", params: RegistrationParams) -> int:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(params.model_name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    last = client.get_registered_model(params.model_name).tags.get(LAST_SEQUENCE, "0")
    client.set_registered_model_tag(params.model_name, LAST_SEQUENCE, str(int(last) + 1))
    return int(last) + 1


def logged_points(client: "MlflowClient", run_id: str) -> Points:
    """Every (metric, step) that the run has."""
    names = client.get_run(run_id).data.metrics
    return {(name, m.step) for name in names for m in client.get_metric_history(run_id, name)}


def log_records(
    client: "MlflowClient", run_id: str, records: Iterable[Mapping[str, Any]], known: Points
) -> None:
    """Logs the numbers of training records that are not in `known` yet, and adds them to it.

    As `training.<name>`: those of the last logged steps, beside the evaluation's of all held-out
    pairs.
    """
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    new: dict[tuple[str, int], float] = {}
    for record in records:
        step = next((int(record[name]) for name in STEP_NAMES if name in record), 0)
        numbers = {n: v for n, v in record.items() if n not in NO_METRICS and _is_number(v)}
        named = {
            (mlflow_name(f"training.{name}"), step): float(value) for name, value in numbers.items()
        }
        new |= {point: value for point, value in named.items() if point not in known}
    metrics = [Metric(name, value, now, step) for (name, step), value in new.items()]
    for start in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(run_id, metrics=metrics[start : start + METRICS_PER_CALL])
    known.update(new)


def mlflow_name(path: str) -> str:
    """The dotted path as MLflow takes it for a name: without other characters than it allows, and
    with no slash where it would read another path."""
    name = UNNAMEABLE.sub("_", path)[:NAME_LENGTH]
    return name if posixpath.normpath(name) == name else name.replace("/", "_")


def log_history(client: "MlflowClient", run_id: str, path: Path) -> None:
    """Logs what a `metrics.jsonl` holds and the run does not."""
    if not path.is_file():
        return
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    log_records(client, run_id, records, logged_points(client, run_id))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
