"""What the parent says of a training child that ends without a reason of its own."""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tasks.artifact import Workspace
from tasks.errors import TrainingError
from tasks.training.params import TrainingParams
from tasks.training.process.job import Job
from tasks.training.process.launch import train

DEADLINE = 60.0


def kill_child_of(job: Job) -> None:
    """SIGKILL to the training process as soon as it is there, seconds before its first line."""
    words = ["-m", "tasks.training", str(job.path)]
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if entry.read_text().split("\0")[1:4] == words:
                    return os.kill(int(entry.parent.name), signal.SIGKILL)
        time.sleep(0.01)
    return None


def test_a_child_that_is_killed_before_it_says_anything_is_told_in_a_whole_sentence(tmp_path):
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    workspace = Workspace(tmp_path / "work", lock)
    params = TrainingParams(device="cpu").model_dump(mode="json")
    places = {name: str(tmp_path / name) for name in ("model", "tokenizer", "pairs", "output")}
    job = Job(**places, scratch=str(workspace.scratch), params=params, identity={})
    killer = threading.Thread(target=kill_child_of, args=(job,))
    killer.start()
    with pytest.raises(TrainingError) as told:
        train(job, workspace)
    killer.join()
    os.close(lock)
    message = str(told.value)
    assert "exit code 137 (killed from outside: often the kernel, for want of memory; " in message
    assert message.endswith(" and left no reason, nor any output")
