"""The parent's side of training: starts the supervised child, relays its output, raises its error.

The child's output goes line by line to the logger `tasks.training` and to logs/log.txt; new records
of logs/metrics.jsonl go to a callback. Importing this imports no torch.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.artifact import Workspace
from tasks.training.params import TrainingParams
from tasks.training.process.command import environment, launch_command, tell_of_flags
from tasks.training.process.job import Job
from tasks.training.process.outcome import newest_step, raise_failure, was_killed

logger = logging.getLogger("tasks.training")

SUPERVISOR = "tasks.training.process.supervisor"
LAST_LINES = 15
"""Of the child's output, quoted in the error when it dies without one of its own."""
MOST_RESTARTS = 2
"""Of one run, after a child was killed that had saved a checkpoint of its own."""

OnMetrics = Callable[[dict[str, Any]], None]
"""Called with each record of metrics.jsonl."""


def train(job: Job, workspace: Workspace, on_metrics: OnMetrics | None = None) -> None:
    """Runs the job in a child process until it ends.

    A child that the kernel kills (often for want of memory) is started again from its newest
    checkpoint, MOST_RESTARTS times, as long as each child came further than the one before. Each
    restart is a warning of the workspace's report.

    Raises:
        TrainingError: the child failed; the message is its own if it wrote one.
        Interrupted: the child was stopped from outside, with its work saved in a checkpoint.
    """
    tell_of_flags(job.training_params)
    records = _Records(workspace.logs / "metrics.jsonl", on_metrics)
    restarts = 0
    while True:
        before = newest_step(job)
        code, last = _train_once(job, workspace, records)
        after = newest_step(job)
        if restarts == MOST_RESTARTS or after <= before or not was_killed(job, code, last):
            return raise_failure(job, code, last, workspace.logs / "log.txt")
        restarts += 1
        told = "the training process was killed (often by the kernel, for want of memory); it"
        logger.warning("%s starts again from checkpoint-%d", told, after)
        warnings = workspace.report.setdefault("warnings", [])
        warnings.append(f"{told} went on from checkpoint-{after}")


def _train_once(job: Job, workspace: Workspace, records: "_Records") -> tuple[int, list[str]]:
    """Runs one child; returns its exit code and the last lines of its output."""
    command = launch_command(job.training_params, job.write())
    last: deque[str] = deque(maxlen=LAST_LINES)
    with (
        (workspace.logs / "log.txt").open("a", encoding="utf-8") as log,
        _guarded(command, job.training_params, workspace.lock_fd) as supervisor,
    ):
        assert supervisor.stdout is not None
        quiet = False
        for raw in supervisor.stdout:
            text = raw.rstrip("\n")
            log.write(text + "\n")
            log.flush()
            last.append(text)
            # What launchers print after a failure that has been explained is for log.txt alone.
            quiet = quiet or job.error.exists()
            if not quiet:
                logger.info("%s", text)
            records.pass_on()
    records.pass_on()
    return supervisor.returncode, list(last)


@contextmanager
def _guarded(
    command: list[str], params: TrainingParams, lock: int
) -> Generator["subprocess.Popen[str]", None, None]:
    """The supervisor process, running the command; when the block ends, all of it has ended."""
    leash, hand = os.pipe()  # read end and write end; `hand` stays in this process
    given = (leash, lock, params.stop_seconds)
    try:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", SUPERVISOR, *map(str, given), "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment(params),
            pass_fds=(leash, lock),
            start_new_session=True,  # a Ctrl-C of the terminal reaches the parent alone
        )
    except BaseException:
        os.close(hand)
        raise
    finally:
        os.close(leash)
    # If the supervisor dies, the leash is closed, so that training processes save and end.
    threading.Thread(target=_break_leash_after, args=(supervisor, hand), daemon=True).start()
    with supervisor:
        try:
            yield supervisor
        except BaseException:
            supervisor.send_signal(signal.SIGTERM)
            raise
        finally:
            _await(supervisor, params.stop_seconds)


def _break_leash_after(supervisor: "subprocess.Popen[str]", hand: int) -> None:
    supervisor.wait()
    os.close(hand)


def _await(supervisor: "subprocess.Popen[str]", grace: float) -> None:
    """Waits until the supervisor has ended everything, a little longer than its grace at most."""
    try:
        supervisor.wait(grace + 10)
    except subprocess.TimeoutExpired:
        supervisor.kill()


class _Records:
    """Passes records that are appended to a JSONL file from now on to a callback."""

    def __init__(self, path: Path, on_metrics: OnMetrics | None) -> None:
        self.path = path
        self.on_metrics = on_metrics
        self._offset = path.stat().st_size if path.exists() else 0

    def pass_on(self) -> None:
        """Passes on every new complete line."""
        if self.on_metrics is None or not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                self.on_metrics(json.loads(line))
