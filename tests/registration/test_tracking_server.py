"""A real MLflow server on this machine: versions, reports and aliases through HTTP."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest

from tasks.registration import is_deleted
from tasks.registration.aliases.history import history
from tasks.registration.task import receipt
from tests.registration.test_logged_model import register_over_another_release

NAME = "reward-model"
PROMOTE = """
import sys
from pathlib import Path

import mlflow.artifacts
from tasks.registration import RegistrationParams
from tasks.registration.aliases import lock
from tasks.registration.aliases.promotion import promote

root, uri, *versions = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for version in map(int, versions):
    promote(RegistrationParams(tracking_uri=uri), Path(root), version, why=f"from {root}")
"""
HOLD = """
import sys, time
from pathlib import Path
from tasks.registration import RegistrationParams
from tasks.registration.aliases.lock import leased
from tasks.registration.tracking import client_for

client = client_for(RegistrationParams(tracking_uri=sys.argv[1]), Path(sys.argv[2]))
with leased(client, "reward-model"):
    print("held", flush=True)
    time.sleep(600)
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a server with a SQLite store, one worker and no jobs."""
    home, port = tmp_path_factory.mktemp("server"), free_port()
    url = f"http://127.0.0.1:{port}"
    store = ["--backend-store-uri", f"sqlite:///{home}/mlflow.db"]
    store += ["--artifacts-destination", str(home / "artifacts")]
    listen = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *store, *listen],
            cwd=home,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
            | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            for _ in range(240):
                assert server.poll() is None, (home / "log").read_text()[-3000:]
                try:
                    urllib.request.urlopen(f"{url}/health")
                    break
                except OSError:
                    time.sleep(0.5)
            yield url
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)


@pytest.fixture(scope="module")
def two(address, new_place):
    """Version 1, then the better version 2, in the server's registry."""
    place = new_place("client")
    place.params = place.params.model_copy(update={"tracking_uri": address})
    for made in (place.worse, place.better):
        found = receipt(place.register(made))
        assert found["alias"] == "champion"
    return place


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() in ("ready", "held")
    return process


def chain(place) -> list[tuple[int | None, int | None]]:
    found = history(place.client, NAME)
    return [(m.previous, m.version) for m in found if m.alias == "champion"]


@pytest.mark.slow
def test_run_and_version_have_their_pages_on_the_server(two, address):
    found = receipt(two.register(two.better))
    experiment = two.client.get_run(found["run_id"]).info.experiment_id
    page = two.client.download_artifacts(found["run_id"], "registration/report.html")
    text = Path(page).read_text("utf-8")
    assert f'href="{address}/#/experiments/{experiment}/runs/{found["run_id"]}"' in text
    assert f'href="{address}/#/models/{NAME}/versions/2"' in text
    files = two.client.list_logged_model_artifacts(found["logged_model_id"], "registration")
    assert {"registration/report.html", "registration/decision.json"} <= {f.path for f in files}


@pytest.mark.slow
def test_processes_that_promote_at_once_move_the_alias_one_after_the_other(two, address, tmp_path):
    before = chain(two)
    roots = [tmp_path / name for name in ("a", "b")]  # as two checkouts: no common lock file
    orders = ((1, 2), (2, 1))
    processes = [
        start(PROMOTE, root, address, *order) for root, order in zip(roots, orders, strict=True)
    ]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ends
    made = chain(two)
    assert made[: len(before)] == before
    assert len(made) > len(before)
    # Every move begins where the one before it ended: none was made beside another.
    assert all(old[1] == new[0] for old, new in pairwise(made))
    assert int(two.client.get_registered_model(NAME).aliases["champion"]) == made[-1][1]
    assert two.client.search_registered_models(f"name = '{NAME}.lock'") == []


@pytest.mark.slow
def test_the_lease_of_a_killed_process_is_taken_away(two, address, tmp_path, monkeypatch):
    from tasks.registration.aliases import lock

    monkeypatch.setattr(lock, "LEASE_SECONDS", 8.0)
    with start(HOLD, address, tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
    assert len(two.client.search_registered_models(f"name = '{NAME}.lock'")) == 1
    with lock.leased(two.client, NAME) as still_ours:
        still_ours()
    assert two.client.search_registered_models(f"name = '{NAME}.lock'") == []


@pytest.mark.slow
def test_modules_of_an_earlier_release_are_cleared_from_the_server(two, tmp_path):
    register_over_another_release(two, two.worse, tmp_path)


@pytest.mark.slow
def test_a_version_is_deleted_once_the_server_says_so(two, address, tmp_path):
    """Runs last: it takes the versions away."""
    found = receipt(two.register(two.better))
    assert not is_deleted(found, address, tmp_path)
    two.client.rename_registered_model(NAME, "renamed")
    assert not is_deleted(found, address, tmp_path)
    assert not is_deleted(found, f"http://127.0.0.1:{free_port()}", tmp_path)
    two.client.delete_model_version("renamed", str(found["version"]))
    assert is_deleted(found, address, tmp_path)
