"""Metrics reach the run once, by their step, and MLflow that fails stops nothing."""

import logging
import shutil
import subprocess
import sys
import time
from pathlib import Path
from stat import S_IMODE

import pytest
from mlflow import MlflowClient
from pydantic import ValidationError

from tasks.artifact.lock import locked
from tasks.errors import RegistrationError
from tasks.registration import MetricsSink, RegistrationParams
from tasks.registration.experiment import experiment_for
from tasks.registration.facts import flattened
from tasks.registration.tracking import (
    client_for,
    log_history,
    run_for,
    sequence_of,
)


def history(place, run_id, name):
    return [(m.step, m.value) for m in place.client.get_metric_history(run_id, name)]


def test_a_resumed_training_logs_each_step_once_to_the_one_run(place):
    records = [{"global_step": s, "loss": 1 / s, "epoch": s / 30} for s in (10, 20, 30)]
    killed = MetricsSink(place.params, place.root, "abc")
    for record in records[:2]:
        killed(record)
    killed.flush()
    resumed = MetricsSink(place.params, place.root, "abc")
    for record in records[1:]:  # step 20 came after the checkpoint: it comes again
        resumed(record)
    resumed.flush()
    assert resumed.run_id == killed.run_id
    assert history(place, resumed.run_id, "training.loss") == [(10, 0.1), (20, 0.05), (30, 1 / 30)]


def test_a_relative_database_is_the_roots_wherever_the_command_is_typed(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    params, root = RegistrationParams(tracking_uri="sqlite:///kept/mlflow.db"), tmp_path / "root"
    client = client_for(params, root)
    run = client.get_run(run_for(client, params, root, "abc"))
    assert (root / "kept" / "mlflow.db").is_file()
    assert Path(run.info.artifact_uri).is_relative_to(root / "kept" / "artifacts")
    assert list(Path.cwd().iterdir()) == []
    absolute = params.model_copy(update={"tracking_uri": f"sqlite:///{root}/kept/mlflow.db"})
    assert client_for(absolute, root).get_run(run.info.run_id).info == run.info


def test_a_record_may_add_metrics_to_a_step_and_what_is_no_number_is_left_out(place):
    sink = MetricsSink(place.params, place.root, "abc")
    sink({"step": 10, "max_steps": 90, "time": 1.7e9, "loss": 0.5, "recall@1": 0.5, "a//b": 2})
    sink({"global_step": 10, "eval_loss": 0.4, "note": "x", "flag": True, "bad": float("nan")})
    sink.flush()
    assert history(place, sink.run_id, "training.eval_loss") == [(10, 0.4)]
    assert set(place.client.get_run(sink.run_id).data.metrics) == {
        "training.loss",
        "training.eval_loss",
        "training.recall_1",  # MLflow takes neither as it is, and would refuse all the others, too
        "training.a__b",
    }


def test_mlflow_that_fails_is_told_once_and_registration_logs_what_is_missing(
    place, tmp_path, caplog
):
    database = place.root / "mlruns" / "mlflow.db"
    sink = MetricsSink(place.params, place.root, "abc")
    sink({"global_step": 10, "loss": 0.5})
    sink.flush()
    held = database.read_bytes()
    database.write_bytes(b"no database")
    with caplog.at_level(logging.WARNING):
        sink({"global_step": 20, "loss": 0.4})
        sink({"global_step": 30, "loss": 0.3})
        sink.close()
    assert len([r for r in caplog.records if "do not reach MLflow" in r.message]) == 1
    database.write_bytes(held)
    lines = [f'{{"global_step": {s}, "loss": {0.6 - s / 100}}}' for s in (10, 20, 30)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    log_history(place.client, sink.run_id, tmp_path / "metrics.jsonl")
    assert [step for step, _ in history(place, sink.run_id, "training.loss")] == [10, 20, 30]


def test_records_that_mlflow_refused_are_logged_with_the_next_and_none_twice(
    place, monkeypatch, caplog
):
    log_batch, failures = MlflowClient.log_batch, [False, True]

    def failing(client, *args, **kwargs):
        if not failures:
            return log_batch(client, *args, **kwargs)
        if failures.pop():  # it came too late: the server has taken the points
            log_batch(client, *args, **kwargs)
        raise TimeoutError("no answer")

    sink = MetricsSink(place.params, place.root, "abc")
    monkeypatch.setattr(MlflowClient, "log_batch", failing)
    with caplog.at_level(logging.INFO):
        for step in (10, 20, 30):
            sink({"global_step": step, "loss": 1 / step})
            sink.flush()
    assert history(place, sink.run_id, "training.loss") == [(10, 0.1), (20, 0.05), (30, 1 / 30)]
    told = [r.message for r in caplog.records if "reach MLflow" in r.message]
    assert ["TimeoutError" in told[0], "again" in told[1]] == [True] * len(told)


def test_a_failed_run_is_closed_and_taken_up_again(place):
    sink = MetricsSink(place.params, place.root, "abc")
    sink({"global_step": 10, "loss": 0.5})
    sink.close()
    client = place.client
    assert client.get_run(sink.run_id).info.status == "FAILED"
    assert run_for(client, place.params, place.root, "abc") == sink.run_id
    assert client.get_run(sink.run_id).info.status == "RUNNING"
    assert run_for(client, place.params, place.root, "other") != sink.run_id


@pytest.mark.parametrize(
    ("raised", "status"), [(KeyboardInterrupt, "KILLED"), (ValueError, "FAILED")]
)
def test_the_run_of_a_registration_that_was_stopped_is_told_from_a_failed_one(
    place, raised, status
):
    from tasks.registration.register import _ending

    run_id = run_for(place.client, place.params, place.root, "key")
    with pytest.raises(raised), _ending(place.client, run_id):
        raise raised
    assert place.client.get_run(run_id).info.status == status


def test_a_training_does_not_wait_for_mlflow(place):
    sink = MetricsSink(place.params, place.root, "abc")
    with locked(place.root / "mlruns" / ".locks" / "runs", "a slow server"):
        for step in (10, 20):
            sink({"global_step": step, "loss": 1 / step})
        assert sink.run_id is None
    sink.flush()
    assert history(place, sink.run_id, "training.loss") == [(10, 0.1), (20, 0.05)]
    sink({"global_step": 30, "loss": 1 / 30})  # goes on after a flush
    sink.flush()
    assert len(history(place, sink.run_id, "training.loss")) == 3


def test_load_and_memory_of_the_machine_are_logged_where_asked_for(place, monkeypatch):
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    params = place.params.model_copy(update={"system_metrics": True})
    sink = MetricsSink(params, place.root, "abc")
    sink({"global_step": 10, "loss": 0.5})
    name = "system/system_memory_usage_percentage"
    for _ in range(600):
        if sink.run_id and name in place.client.get_run(sink.run_id).data.metrics:
            break
        time.sleep(0.05)
    sink.flush()
    assert name in place.client.get_run(sink.run_id).data.metrics
    assert history(place, sink.run_id, "training.loss") == [(10, 0.5)]


def test_runs_draw_their_place_when_they_begin_and_keep_it(place):
    client, params = place.client, place.params
    first, second = (run_for(client, params, place.root, key) for key in ("abc", "def"))
    assert [sequence_of(client, params, run) for run in (second, first, second)] == [2, 1, 2]
    assert run_for(client, params, place.root, "abc") == first
    other = params.model_copy(update={"model_name": "other"})
    assert sequence_of(client, other, second) == 1


def test_no_secret_of_params_or_overrides_reaches_mlflow():
    url = "https://me:pw@bucket.example/x.jsonl?X-Amz-Signature=abc&X-Amz-Date=1#part"
    hidden = {
        "a": f"see {url} and s3://bucket/key?versionId=1",
        "origin": {
            "overrides": [
                f"ingestion.sources.0.path={url}",
                "model.hub_token=hf_abcdefghijklmnopqrst",
                "headers=Authorization: Bearer abcdefghijkl",
                "training.max_steps=3",
            ]
        },
        "hub_token": "short",
        "pad_token": "<pad>",
        "api_key": None,
        "headers": {"x-api-key": "hush", "accessToken": "hush"},
        "stages": {"training": {"key": "0123abcd"}},
        "note": "hf_abcdefghijklmnopqrst in a text",
    }
    assert flattened(hidden) == {
        "a": "see https://***@bucket.example/x.jsonl?*** and s3://bucket/key?***",
        "origin.overrides.0": "ingestion.sources.0.path=https://***@bucket.example/x.jsonl?***",
        "origin.overrides.1": "model.hub_token=***",
        "origin.overrides.2": "headers=Authorization: Bearer ***",
        "origin.overrides.3": "training.max_steps=3",
        "hub_token": "***",
        "pad_token": "<pad>",
        "api_key": "null",
        "headers.x-api-key": "***",
        "headers.accessToken": "***",
        "stages.training.key": "0123abcd",
        "note": "*** in a text",
    }


def test_no_password_reaches_mlflow():
    nested = {"a": [{"uri": "https://me:secret@host/x"}], "b": None, "c": {"d e!": 1e-4}, "f": []}
    assert flattened(nested) == {
        "a.0.uri": "https://***@host/x",
        "b": "null",
        "c.d e_": "0.0001",
        "f": "[]",
    }
    with pytest.raises(ValidationError, match="must not hold a password"):
        RegistrationParams(tracking_uri="https://me:secret@host")


@pytest.mark.parametrize("name", ["../x", "a/b", "a:b", "", "Caps", "x" * 65])
def test_a_name_that_could_be_a_path_is_refused(name):
    with pytest.raises(ValidationError, match="model_name"):
        RegistrationParams(model_name=name)


def size(path: Path) -> int:
    """Bytes of a file that may vanish meanwhile, as SQLite's journals do."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


FIRST_USE = (
    "import sys; from pathlib import Path; from tasks.registration import RegistrationParams\n"
    "from tasks.registration.experiment import experiment_for\n"
    "from tasks.registration.tracking import client_for\n"
    "params, root = RegistrationParams(), Path(sys.argv[1])\n"
    "experiment_for(client_for(params, root), params, root)"
)


@pytest.mark.slow
def test_a_kill_amid_the_making_of_the_database_does_not_spoil_it(tmp_path):
    command = [sys.executable, "-c", FIRST_USE, str(tmp_path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as process:
        while process.poll() is None:  # some migrations have run, others have not
            if max(map(size, (tmp_path / "mlruns").glob("mlflow.db*")), default=0) > 150_000:
                break
            time.sleep(0.001)
        process.kill()
    params = RegistrationParams()
    assert experiment_for(client_for(params, tmp_path), params, tmp_path)
    assert [p.name for p in (tmp_path / "mlruns").glob("mlflow.db*")] == ["mlflow.db"]


def test_who_shares_the_group_may_write_to_the_registry(empty_database):
    assert S_IMODE(empty_database.stat().st_mode) == 0o664


def test_a_copied_registry_leaves_the_artifacts_of_the_first_alone(place, tmp_path):
    experiment_for(place.client, place.params, place.root)
    (place.root / "mlruns" / "artifacts").mkdir(exist_ok=True)
    link = tmp_path / "link"
    link.symlink_to(place.root)
    copy = Path(shutil.copytree(place.root, tmp_path / "copy"))
    for same in (place.root, link):
        assert experiment_for(client_for(place.params, same), place.params, same)
    with pytest.raises(RegistrationError, match=r"copy/mlruns/mlflow\.db, is a copy of that"):
        experiment_for(client_for(place.params, copy), place.params, copy)
    anew = place.params.model_copy(update={"experiment_name": "copied"})
    client = client_for(anew, copy)
    made = client.get_experiment(experiment_for(client, anew, copy))
    assert made.artifact_location == str(copy / "mlruns" / "artifacts")


def test_an_experiment_that_was_deleted_or_whose_files_are_gone_takes_no_run(place, tmp_path):
    client, params, root = place.client, place.params, place.root
    number = experiment_for(client, params, root)
    client.delete_experiment(number)
    with pytest.raises(RegistrationError, match=f"experiments restore -x {number}`\\) or set"):
        experiment_for(client, params, root)
    client.restore_experiment(number)
    assert experiment_for(client, params, root) == number
    kept = tmp_path / "kept"
    made = client.create_experiment("elsewhere", artifact_location=str(kept))
    elsewhere = params.model_copy(update={"experiment_name": "elsewhere"})
    with pytest.raises(
        RegistrationError, match=f"in {kept}, which does not exist; expected {root}"
    ):
        experiment_for(client, elsewhere, root)
    kept.mkdir()
    assert experiment_for(client, elsewhere, root) == made
