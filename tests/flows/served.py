"""A real Prefect server and worker of one test module, and what a user types at them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

PREFECT = str(Path(sys.executable).with_name("prefect"))
LONGEST_SECONDS = 600


@dataclass(frozen=True)
class Served:
    """A server with the deployments and a worker; `checkout` is where commands are typed."""

    api: str
    checkout: Path
    variables: dict[str, str]
    server: ExitStack = field(default_factory=ExitStack)

    def start_server(self) -> None:
        """Ends the one that is running, if any, and waits until the new one answers."""
        self.server.close()
        log, address = self.checkout.with_name("server.log"), httpx.URL(self.api)
        words = ("server", "start", "--host", address.host, "--port", str(address.port))
        process = self.server.enter_context(running(self, *words, log=log))
        wait_for_server(self.api, process, log)

    def prefect(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PREFECT, *arguments],
            cwd=self.checkout,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
        )

    def read(self, what: str, **wanted) -> list[dict]:
        """All objects of a kind that the API's filter lets through."""
        answer = httpx.post(f"{self.api}/{what}/filter", json={"limit": 200, **wanted}, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def run(self, deployment: str, name: str, *, root: Path, params: Path, **others) -> dict:
        """The flow run that `prefect deployment run` started and watched to its end."""
        done, run = self._run(deployment, name, "--watch", params=params, root=root, **others)
        completed = run["state"]["type"] == "COMPLETED"
        assert (done.returncode == 0) == completed, done.stdout + done.stderr
        return run

    def start(self, deployment: str, name: str, *, root: Path, params: Path, **others) -> dict:
        """The flow run that `prefect deployment run` started, once its training takes steps."""
        done, run = self._run(deployment, name, params=params, root=root, **others)
        assert done.returncode == 0, done.stdout + done.stderr

        def steps_taken() -> bool:
            told = self.read("logs", logs={"flow_run_id": {"any_": [run["id"]]}})
            return any(line["message"].startswith("step 2/") for line in told)

        wait_until(steps_taken)
        return self.again(run)

    def again(self, run: dict) -> dict:
        """The flow run as it is now."""
        return self.read("flow_runs", flow_runs={"id": {"any_": [run["id"]]}})[0]

    def _run(
        self, deployment: str, name: str, *options: str, root: Path, params: Path, **others
    ) -> tuple[subprocess.CompletedProcess[str], dict]:
        given = {"params": str(params), "root": str(root), **others}
        words = [f"--param={key}={json.dumps(value)}" for key, value in given.items()]
        words += [f"--flow-run-name={name}", *options]
        done = self.prefect("deployment", "run", deployment, *words)
        runs = self.read("flow_runs", flow_runs={"name": {"any_": [name]}})
        assert len(runs) == 1, done.stdout + done.stderr
        return done, runs[0]

    def tasks_of(self, run: dict) -> dict[str, dict]:
        """The run's task runs by name."""
        found = self.read("task_runs", flow_runs={"id": {"any_": [run["id"]]}})
        return {task["name"]: task for task in found}


@contextmanager
def running(served: Served, *arguments: str, log: Path) -> Iterator[subprocess.Popen]:
    """A Prefect process in a session of its own; nothing of it is left afterwards."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [PREFECT, *arguments],
            cwd=served.checkout,
            env=served.variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def wait_for_server(api: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{api}/health", timeout=5).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text()[-3000:]}")


def wait_until(holds: Callable[[], bool], seconds: float = LONGEST_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.5)
