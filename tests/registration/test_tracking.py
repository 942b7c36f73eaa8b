"""Metrics reach the run once, by their step, and MLflow that fails stops nothing."""

import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from tasks.registration import MetricsSink, RegistrationParams
from tasks.registration.facts import flattened
from tasks.registration.tracking import client_for, experiment_for, log_history, run_for


def history(place, run_id, name):
    return [(m.step, m.value) for m in place.client.get_metric_history(run_id, name)]


def test_a_resumed_training_logs_each_step_once_to_the_one_run(place):
    records = [{"global_step": s, "loss": 1 / s, "epoch": s / 30} for s in (10, 20, 30)]
    killed = MetricsSink(place.params, place.root, "abc")
    for record in records[:2]:
        killed(record)
    resumed = MetricsSink(place.params, place.root, "abc")
    for record in records[1:]:  # step 20 came after the checkpoint: it comes again
        resumed(record)
    assert resumed.run_id == killed.run_id
    assert history(place, resumed.run_id, "loss") == [(10, 0.1), (20, 0.05), (30, 1 / 30)]


def test_a_record_may_add_metrics_to_a_step_and_what_is_no_number_is_left_out(place):
    sink = MetricsSink(place.params, place.root, "abc")
    sink({"step": 10, "max_steps": 90, "loss": 0.5})
    sink({"global_step": 10, "eval_loss": 0.4, "note": "x", "flag": True, "bad": float("nan")})
    assert history(place, sink.run_id, "eval_loss") == [(10, 0.4)]
    assert set(place.client.get_run(sink.run_id).data.metrics) == {"loss", "eval_loss"}


def test_mlflow_that_fails_is_told_once_and_registration_logs_what_is_missing(
    place, tmp_path, caplog
):
    database = place.root / "mlruns" / "mlflow.db"
    sink = MetricsSink(place.params, place.root, "abc")
    sink({"global_step": 10, "loss": 0.5})
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
    assert [step for step, _ in history(place, sink.run_id, "loss")] == [10, 20, 30]


def test_a_failed_run_is_closed_and_taken_up_again(place):
    sink = MetricsSink(place.params, place.root, "abc")
    sink({"global_step": 10, "loss": 0.5})
    sink.close()
    client = place.client
    assert client.get_run(sink.run_id).info.status == "FAILED"
    assert run_for(client, place.params, place.root, "abc") == sink.run_id
    assert client.get_run(sink.run_id).info.status == "RUNNING"
    assert run_for(client, place.params, place.root, "other") != sink.run_id


def test_no_password_reaches_mlflow():
    nested = {"a": [{"uri": "https://me:secret@host/x"}], "b": None, "c": {"d e!": 1e-4}, "f": []}
    assert flattened(nested) == {
        "a.0.uri": "https://host/x",
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
    "from tasks.registration.tracking import client_for, experiment_for\n"
    "params, root = RegistrationParams(), Path(sys.argv[1])\n"
    "experiment_for(client_for(params, root), params, root)"
)


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
