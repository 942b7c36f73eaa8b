"""What the parent says of a training child that ends without a reason of its own."""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tasks.artifact import Workspace
from tasks.errors import Interrupted, PipelineError, TrainingError
from tasks.training.__main__ import main
from tasks.training.checkpoints import checkpoint
from tasks.training.params import TrainingParams
from tasks.training.process.job import Job
from tasks.training.process.launch import train

DEADLINE = 60.0


def end_child_of(job: Job, number: signal.Signals) -> None:
    """Ends the training process as soon as it is there, seconds before its first line: SIGTERM goes
    to its supervisor, any other signal to it."""
    words = ["-m", "tasks.training", str(job.path)]
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if entry.read_text().split("\0")[1:4] == words:
                    stat = (entry.parent / "stat").read_text()
                    supervisor = stat[stat.rindex(")") + 1 :].split()[1]
                    stopped = number == signal.SIGTERM
                    return os.kill(int(supervisor if stopped else entry.parent.name), number)
        time.sleep(0.01)
    return None


@pytest.mark.parametrize(
    ("number", "saved"),
    [
        (signal.SIGKILL, True),
        (signal.SIGKILL, False),
        (signal.SIGTERM, True),
        (signal.SIGTERM, False),
        (signal.SIGSEGV, True),
    ],
)
def test_a_child_that_ends_without_a_word_is_told_with_what_the_next_run_does(
    tmp_path, number, saved
):
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    workspace = Workspace(tmp_path / "work", lock)
    params = TrainingParams(device="cpu").model_dump(mode="json")
    places = {
        name: str(tmp_path / name) for name in ("model", "base", "tokenizer", "pairs", "output")
    }
    job = Job(**places, scratch=str(workspace.scratch), params=params, identity={})
    for step, files in ((20, [checkpoint.MANIFEST] if saved else []), (30, [])):
        directory = job.checkpoints / f"checkpoint-{step}"
        directory.mkdir(parents=True)
        for name in files:
            (directory / name).write_text("{}")
    killer = threading.Thread(target=end_child_of, args=(job, number))
    killer.start()
    with pytest.raises(PipelineError) as told:
        train(job, workspace)
    killer.join()
    os.close(lock)
    then = "running again " + ("continues from checkpoint-20" if saved else "starts anew")
    ended, silent = (
        "the training process ended with exit code",
        "and left no reason, nor any output",
    )
    assert (str(told.value), type(told.value)) == {
        signal.SIGKILL: (
            f"{ended} 137 (killed from outside: often the kernel, for want of memory; {then}) "
            + silent,
            TrainingError,
        ),
        signal.SIGSEGV: (f"{ended} 139 (SIGSEGV; {then}) {silent}", TrainingError),
        signal.SIGTERM: (
            f"training was stopped before it could save (training.stop_seconds: 20); {then}",
            Interrupted,
        ),
    }[number]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "error: found 0 arguments, expected the file of one job"),
        (["a", "b"], "error: found 2 arguments"),
        (["absent.json"], "error: absent.json is no training job"),
    ],
)
def test_a_training_process_that_is_given_no_job_says_what_it_expects(arguments, told, capsys):
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith(told)
