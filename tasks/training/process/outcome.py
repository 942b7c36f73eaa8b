"""What the end of a training process means: done, stopped, failed with a reason, or killed.

In:  the exit code, the last lines of its output, error.json, the checkpoints that stand.
Out: nothing, or the error that tells it; and whether a new process may go on.
"""

import signal
from pathlib import Path

from tasks.artifact.durable import read_json
from tasks.errors import EXIT_INTERRUPTED, Interrupted, TrainingError
from tasks.training.checkpoints import checkpoint as checkpoints
from tasks.training.process.job import Job


def was_killed(job: Job, code: int, last: list[str]) -> bool:
    """Whether SIGKILL ended the child or one of its processes, and that is the reason: what others
    say then (a peer is gone, a launcher stops them) is none."""
    killed = code == 128 + signal.SIGKILL or any("SIGKILL" in line for line in last)
    failure = read_json(job.error)
    explained = failure is not None and failure["own"] and failure["kind"] != Interrupted.__name__
    return killed and code not in (0, EXIT_INTERRUPTED) and not explained


def newest_step(job: Job) -> int:
    """The step of the newest checkpoint that stands; -1 without one."""
    newest = checkpoints.newest_committed(job.checkpoints)
    return newest.step if newest else -1


def raise_failure(job: Job, code: int, last: list[str], log: Path) -> None:
    """Returns if the child has done its job.

    Raises:
        TrainingError: it failed; the message is its own if it wrote one.
        Interrupted: it was stopped from outside.
    """
    killed = was_killed(job, code, last)
    failure = None if killed else read_json(job.error)
    if failure is not None:
        stopped = failure["kind"] == Interrupted.__name__
        raise (Interrupted if stopped else TrainingError)(failure["message"])
    if code == EXIT_INTERRUPTED:
        seconds = f"training.stop_seconds: {job.training_params.stop_seconds:g}"
        raise Interrupted(
            f"training was stopped before it could save ({seconds}); {_next_run(job)}"
        )
    if code == 0 and (Path(job.output) / "training.json").is_file():
        return
    told = "\n".join([f"reason; {log} ends with:", *last]) if last else "reason, nor any output"
    raise TrainingError(
        f"the training process ended with exit code {code}{_signal(job, code, killed)} and left no "
        f"{told}"
    )


def _signal(job: Job, code: int, killed: bool) -> str:
    """The signal that ended the process, and what to do; nothing if none did."""
    number = -code if code < 0 else code - 128
    if killed or number == signal.SIGKILL:
        name = "killed from outside: often the kernel, for want of memory"
    elif number in {*signal.Signals}:  # a library crashed
        name = signal.Signals(number).name
    else:
        return ""
    return f" ({name}; {_next_run(job)})"


def _next_run(job: Job) -> str:
    """What running again does, by the checkpoints that stand."""
    newest = checkpoints.newest_committed(job.checkpoints)
    if newest is None:
        return "running again starts anew"
    return f"running again continues from {newest.path.name}"
