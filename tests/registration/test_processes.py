"""Real kills and real company: one version, whatever dies and whoever else registers."""

import random
import signal
import subprocess
import sys
import time

import pytest

from tasks.registration import still_registered
from tasks.registration.task import receipt

REGISTER = """
import sys
from pathlib import Path
from tasks.artifact import Store
from tasks.artifact.record import read_artifact
from tasks.registration import RegistrationParams, step
import tasks.registration.register, mlflow.pyfunc, tasks.evaluation.scoring.score

root, data, *paths = map(Path, sys.argv[1:])
made = [read_artifact(path) for path in paths]
print("ready", flush=True)
params = RegistrationParams(gate={"min_accuracy": None})
artifact = Store(data).obtain(step(params, root, *made, {}))
print(artifact.path, flush=True)
"""


def start(place, made, data="data") -> subprocess.Popen[str]:
    paths = [place.root, place.root / data, *(a.path for a in made)]
    process = subprocess.Popen(
        [sys.executable, "-c", REGISTER, *map(str, paths)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


def the_one_version(place, made):
    found = receipt(place.register(made))
    client = place.client
    experiment = client.get_experiment_by_name("reward-pipeline").experiment_id
    assert len(client.search_model_versions("name = 'reward-model'")) == 1
    assert len(client.search_runs([experiment])) == 1
    assert len(client.search_logged_models([experiment])) == 1
    assert still_registered(found, place.params.tracking_uri, place.root) is None
    return found


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_in_one_version(place):
    made = place.evaluated(1)
    draw = random.Random(0)
    killed = 0
    for _ in range(6):
        with start(place, made) as process:
            time.sleep(draw.uniform(0.05, 2.5))
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
    assert killed
    found = the_one_version(place, made)
    assert (found["version"], found["alias"]) == (1, "champion")


@pytest.mark.slow
def test_two_processes_with_stores_of_their_own_register_one_version(place):
    made = place.evaluated(1)
    with start(place, made, "data-a") as first, start(place, made, "data-b") as second:
        ends = [process.communicate()[0].strip() for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    assert all(ends)
    the_one_version(place, made)
