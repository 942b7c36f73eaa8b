"""The training stage: token ids of pairs and a base model -> data/5_training/<key>/model/."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tasks.artifact import Artifact, Step, Workspace, canonical, file_digest, part_digest
from tasks.artifact.durable import read_json
from tasks.errors import TrainingError
from tasks.model import BaseModel
from tasks.tokenization.shards import RENDERING_FILE, TOKENIZER_DIRECTORY
from tasks.training.params import TrainingParams
from tasks.training.process.command import accelerate_config, check_accelerate_config, on_cpu
from tasks.training.process.job import Job
from tasks.training.process.launch import train
from tasks.training.settings.names import NAMES, check_name

STAGE = "training"
SHELF = "5_training"
VERSION = 13


def step(
    params: TrainingParams,
    tokenization: Artifact,
    model: BaseModel,
    model_artifact: Artifact,
    on_metrics: Callable[[dict[str, Any]], None] | None = None,
    conversion: Artifact | None = None,
) -> Step:
    """The step that trains the reward model.

    `on_metrics` gets every record when it is logged. With `conversion`, an error that names pairs
    also says where they are in the sources. Held-out pairs are in the key only if they are
    evaluated during training.

    Raises:
        ParamsError: the accelerate config cannot be used here.
    """
    check_launch(params)
    files = {
        "weights": model.weights_digest,
        "accelerate_config": file_digest(accelerate_config(params)),
        **_part_digests(tokenization, held_out=params.evaluates),
    }

    def build(workspace: Workspace) -> None:
        with _origins_told(conversion):
            train(_job(params, tokenization, model, files, workspace), workspace, on_metrics)
        workspace.report.update(read_json(workspace.path / "training.json"))

    libraries = ("torch", "transformers", "accelerate", *(("peft",) if params.lora else ()))
    return Step(
        STAGE,
        VERSION,
        SHELF,
        params,
        {},
        build,
        libraries,
        files,
        uses={"tokenization": tokenization, "model": model_artifact},
    )


@contextmanager
def _origins_told(conversion: Artifact | None) -> Generator[None, None, None]:
    """An error that names pairs by their id also says where they are in the sources."""
    try:
        yield
    except TrainingError as error:
        if conversion is None:
            raise
        from tasks.training.process.origins import with_origins

        raise TrainingError(with_origins(str(error), conversion.path)) from error


def _job(
    params: TrainingParams,
    tokenization: Artifact,
    model: BaseModel,
    files: dict[str, str],
    workspace: Workspace,
) -> Job:
    return Job(
        model=str(model.path),
        base=model.name,
        tokenizer=str((tokenization.path / TOKENIZER_DIRECTORY).resolve()),
        pairs=str(tokenization.path.resolve()),
        output=str(workspace.path.resolve()),
        scratch=str(workspace.scratch.resolve()),
        params=params.model_dump(mode="json"),
        identity={"version": VERSION, "params": canonical(params, STAGE), **files},
    )


def _part_digests(tokenization: Artifact, held_out: bool) -> dict[str, str]:
    """Digests of the parts of a tokenization that training reads."""
    parts = {
        "training_pairs": "train",
        "tokenizer": TOKENIZER_DIRECTORY,
        "rendering": RENDERING_FILE,
    }
    if held_out:
        parts["held_out_pairs"] = "eval"
    return {name: part_digest(tokenization, part) for name, part in parts.items()}


def check_launch(params: TrainingParams) -> None:
    """Checks, before any work, the accelerate config and the names of optimizer and schedule.

    Raises:
        ParamsError: as `check_accelerate_config` and `check_name`.
    """
    check_accelerate_config(accelerate_config(params), cpu=on_cpu(params))
    for setting in NAMES:
        check_name(f"training.{setting}", getattr(params, setting))
