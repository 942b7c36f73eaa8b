"""What the parent asks of the training process, as one JSON file, and how failure comes back.

    <scratch>/job.json       written by the parent
    <scratch>/error.json     written by the first process that fails: kind and sentence
    <scratch>/checkpoints/   what a killed run goes on from
    <output>/                model/, adapter/, metrics.jsonl, training.json, logs/

Importing this costs neither torch nor pydantic's models of other stages.
"""

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
    tokenizer: str
    """Directory of the tokenizer that made the pairs, with the chat template as it was used."""
    pairs: str
    """Directory with `train/*.arrow` and, where there are held-out pairs, `eval/*.arrow`."""
    output: str
    scratch: str
    params: dict[str, Any]
    identity: dict[str, Any]
    """What checkpoints must belong to: digests of data and model, params that decide the result."""

    @property
    def path(self) -> Path:
        """Where the job stands as a file."""
        return Path(self.scratch) / "job.json"

    @property
    def error(self) -> Path:
        """Where a failure is written."""
        return Path(self.scratch) / "error.json"

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are kept."""
        return Path(self.scratch) / "checkpoints"

    @property
    def training_params(self) -> TrainingParams:
        """The params as their class."""
        return TrainingParams.model_validate(self.params)

    def write(self) -> Path:
        """Writes the job durably and forgets the failure of an earlier attempt."""
        self.error.unlink(missing_ok=True)
        write_json(self.path, asdict(self))
        return self.path


def read_job(path: Path) -> Job:
    """The job of a file.

    Raises:
        TrainingError: it is no job.
    """
    fields = read_json(path)
    if not isinstance(fields, dict) or set(fields) != set(Job.__dataclass_fields__):
        raise TrainingError(
            f"{path} is no training job; it is written by tasks.training.process.launch"
        )
    return Job(**fields)


def write_failure(job: Job, error: BaseException) -> None:
    """Leaves the true sentence for the parent; the first process that fails has the word."""
    if job.error.exists():
        return
    own = isinstance(error, PipelineError)
    message = str(error) if own else f"{type(error).__name__}: {error}"
    write_json(job.error, {"kind": type(error).__name__, "message": message})
