"""Killed anywhere, run again: the same bytes and the same metrics as a run that nobody disturbed.

The quickstart runs in a process of its own; at random moments the flow, the training child or the
whole process group gets SIGKILL, until the given number of kills has landed. Then it runs to its
end, and every stage's content digest, every metric and the registry are compared.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
KILLS = 12
SMALLER = [
    "training.num_train_epochs=1",
    "training.save_strategy=steps",
    "training.save_steps=4",
    "training.logging_steps=3",
    *(f"ingestion.sources.{i}.limit=250" for i in range(3)),
]


def command(root: Path) -> list[str]:
    run = [sys.executable, "-m", "flows", "run", "params/quickstart.yaml", *SMALLER]
    return [*run, "--root", str(root), "--json"]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def finish(root: Path) -> dict:
    done = subprocess.run(
        command(root), cwd=REPOSITORY, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def processes_below(pid: int) -> list[int]:
    """Every descendant of a process, from /proc."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        children = [child for child, p in parents.items() if p == parent]
        found += children
        waiting += children
    return found


def kill(process: subprocess.Popen, whom: str) -> None:
    """SIGKILL to the flow, to one process below it (training, where it runs), or to all."""
    below = processes_below(process.pid)
    victims = {"flow": [process.pid], "child": below[-1:], "all": [process.pid, *below]}[whom]
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def disturbed(root: Path, dice: random.Random, longest: float) -> bool:
    """One run with one kill at a random moment; whether the kill found it still running."""
    process = subprocess.Popen(
        command(root),
        cwd=REPOSITORY,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + dice.uniform(0.3, longest)
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    landed = process.poll() is None
    kill(process, dice.choice(["flow", "child", "all"]))
    process.wait(timeout=300)
    return landed


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(tmp_path):
    start = time.monotonic()
    reference = finish(tmp_path / "undisturbed")
    longest = time.monotonic() - start
    dice = random.Random(0)
    landed, root = 0, tmp_path / "disturbed-0"
    while landed < KILLS:
        if not disturbed(root, dice, longest):
            begun = len(list(tmp_path.glob("disturbed-*")))
            root = tmp_path / f"disturbed-{begun}"  # it had finished: on with a fresh one
            continue
        landed += 1
    for directory in sorted(tmp_path.glob("disturbed-*")):
        result = finish(directory)
        for stage, facts in reference["stages"].items():
            if stage != "registration":  # its record names MLflow's own ids
                assert result["stages"][stage]["digest"] == facts["digest"], (directory, stage)
            assert result["stages"][stage]["dropped"] == facts["dropped"]
        assert result["metrics"] == reference["metrics"]
        assert result["registered"]["version"] == reference["registered"]["version"] == 1
        assert not list((directory / "data/.work").iterdir())
