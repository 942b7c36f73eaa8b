"""The deployment as a user runs it: a real server, a real worker, the commands of the README.

All of it on free ports of 127.0.0.1, with a home of its own and from a copy of the checkout.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import yaml

from flows.pipeline import ORDER
from tests.flows.served import Served, running, wait_until

REPOSITORY = Path(__file__).parents[2]
FOLDERS, FILES = ("flows", "tasks", "params"), ("prefect.yaml", "pyproject.toml")


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("served")
    checkout = place / "checkout"
    for name in FOLDERS:
        shutil.copytree(REPOSITORY / name, checkout / name)
    for name in FILES:
        shutil.copy(REPOSITORY / name, checkout)
    # No nightly run may begin while these tests run.
    far = (datetime.now(UTC) + timedelta(hours=12)).hour
    deployments = (checkout / "prefect.yaml").read_text()
    assert "0 2 * * *" in deployments
    (checkout / "prefect.yaml").write_text(deployments.replace("0 2 * * *", f"0 {far} * * *"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    api = f"http://127.0.0.1:{port}/api"
    variables = {name: v for name, v in os.environ.items() if not name.startswith("PREFECT_")}
    variables |= {
        "PREFECT_HOME": str(place / "home"),
        "PREFECT_API_URL": api,
        "PYTHONPATH": str(checkout),
        "DO_NOT_TRACK": "true",
        "OMP_NUM_THREADS": "1",
    }
    it = Served(api, checkout, variables)
    with it.server:
        it.start_server()
        for words in (
            ("work-pool", "create", "--type", "process", "local-pool"),
            ("--no-prompt", "deploy", "--all"),
        ):
            done = it.prefect(*words)
            assert done.returncode == 0, done.stdout + done.stderr
        with running(it, "worker", "start", "--pool", "local-pool", log=place / "worker.log"):
            yield it


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """A params file: 60 pairs that a rule tells apart and a bad one, a model of a few thousand."""
    place = tmp_path_factory.mktemp("tiny")

    def says(role: str, content: str) -> list[dict]:
        return [{"role": role, "content": content}]

    colours = ["red", "green", "blue", "white", "black"]
    rows = [
        {
            "prompt": says("user", f"Is {i} {colours[i % 5]}?"),
            "chosen": says("assistant", f"Yes, {i} is {colours[i % 5]}."),
            "rejected": says("assistant", f"No, {i} is {colours[(i + 1) % 5]}."),
        }
        for i in range(60)
    ]
    bad = {"prompt": says("user", "<b>|`x`"), "chosen": [], "rejected": says("assistant", "x")}
    lines = [json.dumps(row) for row in [*rows, bad]]
    (place / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    params = {
        "model": {"scratch": {"vocab_size": 300, "hidden_size": 16, "intermediate_size": 32}},
        "ingestion": {"sources": [{"name": "tiny", "path": str(place / "pairs.jsonl")}]},
        "conversion": {"eval_fraction": 0.2, "max_bad_fraction": 0.5},
        "tokenization": {"max_length": 128},
        "training": {
            "num_train_epochs": 1,
            "per_device_train_batch_size": 16,
            "logging_steps": 2,
        },
    }
    (place / "tiny.yaml").write_text(yaml.safe_dump(params))
    return place / "tiny.yaml"


FOUND = {
    "ingestion": "61 of 61 rows",
    "conversion": "60 of 61 rows",
    "templating": "60 of 60 rows",
    "tokenization": "60 of 60 rows",
    "training": "step 4: loss ",
    "evaluation": "accuracy ",
    "registration": "champion: the first champion: there was none to beat",
}


@pytest.mark.slow
def test_a_deployed_run_shows_its_stages_and_the_next_one_finds_all_cached(served, tiny, tmp_path):
    first = served.run("reward-pipeline", "first", params=tiny, root=tmp_path)
    assert first["state"]["type"] == "COMPLETED", first["state"]["message"]
    assert "registered reward-model version 1 (champion)" in first["state"]["message"]
    keys = {record.parent.name for record in tmp_path.glob("data/*/*/record.json")}
    tasks = served.tasks_of(first)
    assert {name.split("-")[0] for name in tasks} == set(ORDER)
    for name, task in tasks.items():
        assert name.split("-")[1] in keys
        stage, told = name.split("-")[0], task["state"]["message"]
        assert (task["state"]["name"], "NEVER BUILT" in told) == ("Completed", True)
        assert told.startswith(FOUND.get(stage, "NEVER BUILT"))

    shown = served.read("artifacts", flow_runs={"id": {"any_": [first["id"]]}})
    pages = {artifact["key"].removeprefix("reward-pipeline-"): artifact for artifact in shown}
    assert set(pages) == {"plan", "summary", "training-progress", *ORDER}
    assert [line["plan"] for line in json.loads(pages["plan"]["data"])][:2] == ["RUN", "DEPENDS"]
    assert float(pages["training-progress"]["data"]) == 100
    assert "![margins](data:image/png;base64," in pages["evaluation"]["data"]
    assert "| tiny | 61 | 0 | 1 | 60 |" in pages["conversion"]["data"]
    assert pages["conversion"]["description"] == FOUND["conversion"]

    training = next(task for name, task in tasks.items() if name.startswith("training-"))
    told = served.read("logs", logs={"task_run_id": {"any_": [training["id"]]}})
    assert any(line["message"].startswith("step 2/") for line in told)

    full_name = "reward-pipeline/reward-pipeline"
    second = served.run(full_name, "second", params=tiny, root=tmp_path)
    assert second["state"]["message"].startswith("7 of 7 stages cached; accuracy ")
    again = served.tasks_of(second)
    assert set(again) == set(tasks)
    for task in again.values():
        assert task["state"]["name"] == "Cached"
        assert "cached: " in task["state"]["message"]


@pytest.mark.slow
def test_a_failed_stage_ends_in_its_one_sentence(served, tiny, tmp_path):
    strict = ["conversion.max_bad_fraction=0"]
    run = served.run("reward-pipeline", "strict", params=tiny, root=tmp_path, overrides=strict)
    lines = served.read("logs", logs={"flow_run_id": {"any_": [run["id"]]}})
    assert lines
    told = [line["message"] for line in lines]
    assert not [words for words in told if "Traceback" in words or "NoneType: None" in words]
    failed = [t for t in served.tasks_of(run).values() if t["state"]["type"] == "FAILED"]
    assert [task["name"].split("-")[0] for task in failed] == ["conversion"]
    assert failed[0]["state"]["message"] == run["state"]["message"]
    assert "max_bad_fraction" in run["state"]["message"]


@pytest.mark.slow
def test_a_cancelled_run_leaves_a_checkpoint_and_no_process(served, tiny, tmp_path):
    def processes() -> list[int]:
        lines = {p.parent.name: p for p in Path("/proc").glob("[0-9]*/cmdline")}
        return [int(pid) for pid, p in lines.items() if str(tmp_path) in read(p)]

    longer = ["training.num_train_epochs=2000"]
    run = served.start("reward-pipeline", "long", params=tiny, root=tmp_path, overrides=longer)
    assert processes()
    assert served.prefect("flow-run", "cancel", run["id"]).returncode == 0
    wait_until(lambda: served.again(run)["state"]["name"] == "Cancelled")
    wait_until(lambda: not processes())
    assert list(tmp_path.glob("data/.work/training-*/scratch/**/MANIFEST.json"))


@pytest.mark.slow
def test_the_tasks_of_a_run_whose_process_is_killed_crash_with_it(served, tiny, tmp_path):
    longer = ["training.num_train_epochs=2000"]
    run = served.start("reward-pipeline", "killed", params=tiny, root=tmp_path, overrides=longer)
    engines = [
        p.parent for p in Path("/proc").glob("[0-9]*/cmdline") if "prefect.engine" in read(p)
    ]
    (its,) = [place for place in engines if run["id"] in read(place / "environ")]
    os.kill(int(its.name), signal.SIGKILL)
    wait_until(lambda: served.again(run)["state"]["name"] == "Crashed")

    def training() -> dict:
        tasks = served.tasks_of(run)
        return next(task["state"] for name, task in tasks.items() if name.startswith("training-"))

    wait_until(lambda: training()["name"] == "Crashed", seconds=120)
    assert training()["message"] == served.again(run)["state"]["message"]
    others = [task["state"]["type"] for task in served.tasks_of(run).values()]
    assert sorted(set(others)) == ["COMPLETED", "CRASHED"]
    # As where its worker was killed, too, and nobody ended the task: the next run does.
    tasks = served.tasks_of(run).items()
    (task,) = [task for name, task in tasks if name.startswith("training-")]
    forced = {"state": {"type": "RUNNING", "name": "Running"}, "force": True}
    address = f"{served.api}/task_runs/{task['id']}/set_state"
    httpx.post(address, json=forced).raise_for_status()
    assert training()["name"] == "Running"
    served.run("reward-pipeline", "next", params=tiny, root=tmp_path, until="ingestion")
    assert training()["name"] == "Crashed"
    assert training()["message"] == "its flow run has crashed"


@pytest.mark.slow
def test_a_run_keeps_its_place_when_the_server_is_started_again(served, tiny, tmp_path):
    longer = ["training.num_train_epochs=2000"]
    given = {"params": tiny, "root": tmp_path, "overrides": longer}
    run = served.start("reward-pipeline", "outlives", **given)
    served.start_server()
    # The run renews its lease; Prefect ends it where the server does not know the lease any more.
    lease = run["state"]["state_details"]["deployment_concurrency_lease_id"]
    leases = f"{served.api}/v2/concurrency_limits/leases"
    renewed = httpx.post(f"{leases}/{lease}/renew", json={"lease_duration": 300}, timeout=60)
    assert renewed.is_success, renewed.text
    meets = served.run("reward-pipeline", "meets", **given)
    assert meets["state"]["name"] == "Cancelled"
    assert served.again(run)["state"]["name"] == "Running"
    assert served.prefect("flow-run", "cancel", run["id"]).returncode == 0
    wait_until(lambda: served.again(run)["state"]["name"] == "Cancelled")


def read(path: Path) -> str:
    """The text of a file below /proc; empty when its process is gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.slow
def test_misspelt_params_fail_before_any_task(served, tiny, tmp_path):
    misspelt = ["training.lerning_rate=1"]
    run = served.run("reward-pipeline", "misspelt", params=tiny, root=tmp_path, overrides=misspelt)
    assert "unknown key; did you mean learning_rate?" in run["state"]["message"]
    assert served.tasks_of(run) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_bare_name_that_no_deployment_bears_is_told_in_one_sentence(served):
    done = served.prefect("deployment", "run", "reward-pipelin")
    assert done.returncode == 1
    assert (done.stdout + done.stderr).strip() == "Deployment 'reward-pipelin' not found!"


@pytest.mark.slow
def test_the_deployments_have_their_schedules_and_their_limit(served):
    nightly, weekly = sorted(served.read("deployments"), key=lambda d: d["name"])
    assert [nightly["name"], weekly["name"]] == ["reward-pipeline", "reward-pipeline-weekly"]
    assert [s["active"] for s in nightly["schedules"]] == [True]
    assert nightly["schedules"][0]["schedule"]["timezone"] == "UTC"
    assert [s["active"] for s in weekly["schedules"]] == [False]
    assert nightly["global_concurrency_limit"]["limit"] == 1
    assert nightly["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"


@pytest.mark.slow
def test_the_nightly_schedule_makes_runs_and_the_paused_one_does_not(served):
    # Where SQLAlchemy is too new for it, the server starts, and only its scheduler fails.
    def scheduled() -> list[dict]:
        waiting = {"state": {"type": {"any_": ["SCHEDULED"]}}}
        return [run for run in served.read("flow_runs", flow_runs=waiting) if run["auto_scheduled"]]

    wait_until(lambda: bool(scheduled()), seconds=120)
    nightly = next(d for d in served.read("deployments") if d["name"] == "reward-pipeline")
    assert {run["deployment_id"] for run in scheduled()} == {nightly["id"]}


@pytest.mark.slow
def test_a_schedule_that_was_paused_stays_so_when_the_checkout_is_deployed_again(served):
    def schedule() -> dict:
        nightly = next(d for d in served.read("deployments") if d["name"] == "reward-pipeline")
        return nightly["schedules"][0]

    def told(*words: str) -> None:
        done = served.prefect(*words)
        assert done.returncode == 0, done.stdout + done.stderr

    name = "reward-pipeline/reward-pipeline"
    told("deployment", "schedule", "pause", name, schedule()["id"])
    told("--no-prompt", "deploy", "--all")
    after = schedule()
    told("deployment", "schedule", "resume", name, after["id"])
    assert not after["active"]
    assert schedule()["active"]


@pytest.mark.slow
def test_the_automation_against_silent_runs_is_created_once_and_kept_up_to_date(served):
    def ensured() -> str:
        told = subprocess.run(
            [sys.executable, "-m", "flows.automation"],
            cwd=served.checkout,
            env=served.variables,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return told.rpartition(": ")[2].strip()

    assert [ensured(), ensured()] == ["created", "is there"]
    (made,) = served.read("automations")
    given = (
        "name",
        "description",
        "trigger",
        "actions",
        "actions_on_trigger",
        "actions_on_resolve",
    )
    sooner = {name: made[name] for name in given} | {"enabled": False}
    sooner["trigger"] = {**made["trigger"], "within": 90}
    httpx.put(f"{served.api}/automations/{made['id']}", json=sooner).raise_for_status()
    assert [ensured(), ensured()] == ["updated", "is there"]
    (mended,) = served.read("automations")
    assert (mended["id"], mended["enabled"]) == (made["id"], False)
    assert mended["trigger"]["within"] == made["trigger"]["within"]


def test_no_run_that_bears_the_absence_of_its_server_is_called_crashed():
    from prefect.concurrency import _leases
    from prefect.settings import get_current_settings

    from flows.automation import SILENCE

    # A request is tried again after 2, 4, 8 ... seconds, a renewal as often as Prefect says.
    attempts = range(1, get_current_settings().client.max_retries + 1)
    renewal = _leases._RENEWAL_MAX_ATTEMPTS * sum(2**attempt for attempt in attempts)
    assert SILENCE.total_seconds() > 300 * _leases._RENEWAL_FRACTION + renewal


def test_the_server_of_the_installed_prefect_can_be_imported(tmp_path):
    # An unpinned fastapi breaks it, while `import prefect` and `pip check` stay silent.
    code = "from prefect.server.api.server import create_app"
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path), "DO_NOT_TRACK": "true"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_deployment_names_a_flow_params_and_overrides_that_load():
    from prefect.flows import load_flow_from_entrypoint

    from flows.params import load

    deployments = yaml.safe_load((REPOSITORY / "prefect.yaml").read_text())["deployments"]
    assert deployments[0]["name"] == "reward-pipeline"
    for deployment in deployments:
        flow = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
        assert flow.name == "reward-pipeline"
        parameters = flow.validate_parameters(deployment["parameters"])
        load(REPOSITORY / parameters["params"], parameters["overrides"])
