"""One training run as a JSON file for the child process, and the file in which it reports failure.

    <scratch>/job.json       written by the parent
    <scratch>/error.json     written by the first process that fails: exception class, message, and
                             whether the error is one of this project's own
    <scratch>/checkpoints/   what a killed run resumes from
    <output>/                model/, adapter/, metrics.jsonl, training.json, logs/

Importing this imports neither torch nor other stages' params.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasks.artifact.durable import read_json, write_json
from tasks.errors import PipelineError, TrainingError
from tasks.training.params import TrainingParams


@dataclass(frozen=True)
class Job:
    """One training run; every path is absolute."""

    model: str
    """Directory of the base model."""
    base: str
    """What the base model is called: a name of the hub with its commit, or of a directory."""
    tokenizer: str
    """Directory of the tokenizer that made the pairs, with the chat template as it was used."""
    pairs: str
    """Directory with `train/*.arrow` and, where there are held-out pairs, `eval/*.arrow`."""
    output: str
    scratch: str
    params: dict[str, Any]
    identity: dict[str, Any]
    """Digests of data and model, and the params that affect the result: a checkpoint with another
    identity is not resumed from."""

    @property
    def path(self) -> Path:
        """The job file."""
        return Path(self.scratch) / "job.json"

    @property
    def error(self) -> Path:
        """The file that a failure is written to."""
        return Path(self.scratch) / "error.json"

    @property
    def checkpoints(self) -> Path:
        """The directory of the checkpoints."""
        return Path(self.scratch) / "checkpoints"

    @property
    def training_params(self) -> TrainingParams:
        """`params`, validated."""
        return TrainingParams.model_validate(self.params)

    def write(self) -> Path:
        """Writes the job file durably, after deleting an earlier attempt's error file."""
        self.error.unlink(missing_ok=True)
        write_json(self.path, asdict(self))
        return self.path


def read_job(path: Path) -> Job:
    """The job in a file that `Job.write` wrote.

    Raises:
        TrainingError: it is another file.
    """
    fields = read_json(path)
    if not isinstance(fields, dict) or set(fields) != set(Job.__dataclass_fields__):
        raise TrainingError(
            f"{path} is no training job; it is written by tasks.training.process.launch"
        )
    return Job(**fields)


def write_failure(job: Job, error: BaseException) -> None:
    """Writes the error file for the parent, unless another process has failed before, or the disk
    has no room for it: what is printed tells of the failure then."""
    own = isinstance(error, PipelineError)
    message = str(error) if own else f"{type(error).__name__}: {error}"
    with suppress(OSError), job.error.open("x", encoding="utf-8") as file:
        json.dump({"kind": type(error).__name__, "message": message, "own": own}, file)
