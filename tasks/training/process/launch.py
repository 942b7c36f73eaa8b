"""The parent's side of training: starts the guarded child, reads what it says, raises its sentence.

The child's output goes line by line to the logger `tasks.training` and to logs/log.txt; the records
of logs/metrics.jsonl go to whoever asks, as they come. Importing this costs no torch.
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
from tasks.artifact.durable import read_json
from tasks.errors import EXIT_INTERRUPTED, Interrupted, TrainingError
from tasks.training.process.command import environment, launch_command
from tasks.training.process.job import Job
from tasks.training.process.warden import GRACE_SECONDS

logger = logging.getLogger("tasks.training")

WARDEN = "tasks.training.process.warden"
LAST_LINES = 15

OnMetrics = Callable[[dict[str, Any]], None]


def train(job: Job, workspace: Workspace, on_metrics: OnMetrics | None = None) -> None:
    """Runs the job in a child process to its end.

    Raises:
        TrainingError: the child failed; the sentence is its own where it left one.
        Interrupted: the child was stopped from outside and has saved its work.
    """
    command = launch_command(job.training_params, job.write())
    records = _Records(workspace.logs / "metrics.jsonl", on_metrics)
    last: deque[str] = deque(maxlen=LAST_LINES)
    with (
        (workspace.logs / "log.txt").open("a", encoding="utf-8") as log,
        _guarded(command, environment(job.training_params), workspace.lock_fd) as warden,
    ):
        assert warden.stdout is not None
        quiet = False
        for raw in warden.stdout:
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
    _raise_failure(job, warden.returncode, list(last), workspace.logs / "log.txt")


@contextmanager
def _guarded(
    command: list[str], variables: dict[str, str], lock: int
) -> Generator["subprocess.Popen[str]", None, None]:
    """The warden with the command below it; nothing of it is left when the block ends."""
    leash, hand = os.pipe()
    try:
        warden = subprocess.Popen(
            [sys.executable, "-m", WARDEN, str(leash), str(lock), "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=variables,
            pass_fds=(leash, lock),
            start_new_session=True,  # a Ctrl-C of the terminal reaches the parent alone
        )
    except BaseException:
        os.close(hand)
        raise
    finally:
        os.close(leash)
    # Without its warden a training process is not guarded: the leash breaks, so that it saves.
    threading.Thread(target=_break_leash_after, args=(warden, hand), daemon=True).start()
    with warden:
        try:
            yield warden
        except BaseException:
            warden.send_signal(signal.SIGTERM)
            raise
        finally:
            _await(warden)


def _break_leash_after(warden: "subprocess.Popen[str]", hand: int) -> None:
    warden.wait()
    os.close(hand)


def _await(warden: "subprocess.Popen[str]") -> None:
    """Waits until the warden has ended everything; its grace bounds the wait."""
    try:
        warden.wait(GRACE_SECONDS + 10)
    except subprocess.TimeoutExpired:
        warden.kill()


class _Records:
    """Hands on the records that are appended to a file from now on."""

    def __init__(self, path: Path, on_metrics: OnMetrics | None) -> None:
        self.path = path
        self.on_metrics = on_metrics
        self._offset = path.stat().st_size if path.exists() else 0

    def pass_on(self) -> None:
        """Hands on every whole line that is new."""
        if self.on_metrics is None or not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                self.on_metrics(json.loads(line))


def _raise_failure(job: Job, code: int, last: list[str], log: Path) -> None:
    failure = read_json(job.error)
    if failure is not None and failure["kind"] == Interrupted.__name__:
        raise Interrupted(failure["message"])
    if failure is not None:
        raise TrainingError(failure["message"])
    if code == EXIT_INTERRUPTED:
        raise Interrupted("training was stopped before its first step; running again starts it")
    if code == 0 and (Path(job.output) / "training.json").is_file():
        return
    text = "\n".join(last)
    killed = code < 0 or code >= 128 or "SIGKILL" in text
    hint = " (killed from outside: often the kernel, for want of memory)" if killed else ""
    raise TrainingError(
        f"the training process ended with exit code {code}{hint} and left no reason; {log} ends "
        f"with:\n{text}"
    )
