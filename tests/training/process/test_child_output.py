"""What a training process prints and writes reaches the log, the caller and the error."""

import logging
import os
import sys

import pytest

from tasks.artifact import Workspace
from tasks.errors import Interrupted, TrainingError
from tasks.training.checkpoints import checkpoint
from tasks.training.params import TrainingParams
from tasks.training.process import launch
from tasks.training.process.job import Job

RECORDS = """
import json, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
records = open(place / "logs/metrics.jsonl", "a")
def write(text):
    records.write(text)
    records.flush()
    print("written", flush=True)
write(json.dumps({"step": 1}) + chr(10) + '{"st')
deadline = time.monotonic() + 30
while not (place / "seen").exists() and time.monotonic() < deadline:
    time.sleep(0.01)
write('ep": 2}' + chr(10))
(place / "training.json").write_text("{}")
"""
"""A record and a half; the rest once the first has been seen."""

FAILS = """
import json, pathlib, sys
place = pathlib.Path(sys.argv[1])
for number in range(20):
    print("line", number, flush=True)
if sys.argv[2]:
    failure = {"kind": sys.argv[2], "message": "row 7", "own": True}
    (place / "error.json").write_text(json.dumps(failure))
    print("what a launcher says then", flush=True)
sys.exit(int(sys.argv[3]))
"""


@pytest.fixture
def workspace(tmp_path):
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    yield Workspace(tmp_path, lock)
    os.close(lock)


@pytest.fixture
def started(tmp_path, workspace, monkeypatch):
    """Runs a script in the place of a training process."""
    params = TrainingParams(device="cpu").model_dump(mode="json")
    names = ("model", "base", "tokenizer", "pairs", "output", "scratch")
    job = Job(**{name: str(tmp_path) for name in names}, params=params, identity={})

    def run(script, *arguments, on_metrics=None):
        words = [sys.executable, "-c", script, str(tmp_path), *arguments]
        monkeypatch.setattr(launch, "launch_command", lambda *_: words)
        launch.train(job, workspace, on_metrics)

    return run


def test_each_record_is_handed_on_once_and_whole(started, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/metrics.jsonl").write_text('{"step": 0}\n')  # of the run before
    found = []

    def seen(record):
        found.append(record["step"])
        (tmp_path / "seen").touch()

    started(RECORDS, on_metrics=seen)
    assert found == [1, 2]
    (tmp_path / "logs/metrics.jsonl").unlink()
    started(RECORDS)  # nobody asks for records
    (tmp_path / "logs/metrics.jsonl").unlink()
    (tmp_path / "seen").unlink()
    started(RECORDS, on_metrics=seen)
    assert found == [1, 2, 1, 2]


@pytest.mark.parametrize("code", ["0", "3", "255"])
def test_a_process_that_gives_no_reason_is_told_with_its_last_lines(started, tmp_path, code):
    if code != "0":
        (tmp_path / "training.json").write_text("{}")  # stands before the score contract does
    with pytest.raises(TrainingError) as told:
        started(FAILS, "", code, on_metrics=print)  # there was no record
    log, lines = tmp_path / "logs/log.txt", [f"line {n}" for n in range(20)]
    assert str(told.value) == (
        f"the training process ended with exit code {code} and left no reason; {log} ends with:\n"
        + "\n".join(lines[-15:])
    )
    assert log.read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("kind", "raised"), [("DataError", TrainingError), ("Interrupted", Interrupted)]
)
def test_a_reason_is_raised_and_what_follows_it_is_for_the_log(
    started, tmp_path, caplog, kind, raised
):
    caplog.set_level(logging.INFO, "tasks.training")
    with pytest.raises((TrainingError, Interrupted), match=r"^row 7$") as told:
        started(FAILS, kind, "1")
    assert type(told.value) is raised
    told_live = [record.getMessage() for record in caplog.records]
    assert told_live[:20] == [f"line {n}" for n in range(20)][: len(told_live)]
    assert "what a launcher says then" not in told_live
    assert "what a launcher says then" in (tmp_path / "logs/log.txt").read_text()


DONE = """
import pathlib, sys
place = pathlib.Path(sys.argv[1])
(place / "checkpoints/checkpoint-5").mkdir(parents=True, exist_ok=True)
(place / "checkpoints/checkpoint-5" / sys.argv[2]).write_text("{}")
(place / "training.json").write_text("{}")
print("rank 1 handles SIGTERM, not SIGKILL", flush=True)
"""


KILLED = """
import os, pathlib, signal, sys
place = pathlib.Path(sys.argv[1])
directory = place / "checkpoints/checkpoint-5"
if not directory.exists():
    directory.mkdir(parents=True)
    (directory / sys.argv[2]).write_text("{}")
    os.kill(os.getpid(), signal.SIGKILL)
(place / "training.json").write_text("{}")
"""


def test_a_process_that_was_killed_and_went_on_is_a_warning_of_the_run(started, workspace):
    started(KILLED, checkpoint.MANIFEST)
    assert workspace.report["warnings"] == [
        "the training process was killed (often by the kernel, for want of memory); it went on "
        "from checkpoint-5"
    ]


def test_a_process_that_has_done_its_job_is_not_started_again_whatever_it_printed(
    started, workspace, tmp_path
):
    started(DONE, checkpoint.MANIFEST)
    assert "warnings" not in workspace.report
    assert (tmp_path / "logs/log.txt").read_text().count("rank 1 handles") == 1
