"""The base model, resolved once: where later stages read it, and its digests for their keys.

The artifact of a local directory or a hub snapshot describes it; a scratch model is built into the
artifact itself.
"""

import logging
from pathlib import Path
from typing import Any

from tasks.artifact import Artifact, Step, Workspace
from tasks.artifact.durable import read_json
from tasks.errors import ModelError
from tasks.ingestion import row_shards
from tasks.ingestion.places.hub import resolve_commit
from tasks.model.directory import BaseModel, config_of, describe
from tasks.model.family import check_family
from tasks.model.hub import download
from tasks.model.params import ModelParams, ScratchParams

logger = logging.getLogger(__name__)

STAGE = "model"
SHELF = "model"
VERSION = 3
DESCRIPTION = "model.json"
HEADS = ("ForSequenceClassification", "RewardModel")
"""Endings of the class names of models with a trained reward head."""
PLACES = {
    "commit": "model.revision",
    **{name: f"model.scratch.{name}" for name in ScratchParams.model_fields},
}
"""Name in a step's params -> key of the params file."""


def step(params: ModelParams, ingestion: Artifact | None) -> Step:
    """The step that gives the base model; only a scratch model needs rows, for its tokenizer.

    Raises:
        ModelError: the path or hub repository is no usable model.
    """
    if params.scratch is not None:
        assert ingestion is not None, "a scratch model is made of rows"
        return _scratch_step(params.scratch, ingestion)
    if params.path is not None:
        directory, provenance = Path(params.path), {"path": str(Path(params.path).resolve())}
    else:
        assert params.hub is not None
        commit = resolve_commit("model", params.hub, params.revision, ModelError)
        directory, provenance = download(params.hub, commit), {"hub": params.hub, "commit": commit}
    model = describe(directory, provenance)

    def build(workspace: Workspace) -> None:
        check_family(model.path, config_of(model.path).get("model_type"))
        workspace.write_json(DESCRIPTION, {"path": str(model.path), "provenance": provenance})
        workspace.report.update(provenance)
        workspace.report["warnings"] = warnings_of(model.path)
        for warning in workspace.report["warnings"]:
            logger.warning("%s", warning)

    files = {"tokenizer": model.tokenizer_digest, "weights": model.weights_digest}
    return Step(STAGE, VERSION, SHELF, provenance, {}, build, files=files, places=PLACES)


def warnings_of(directory: Path) -> list[str]:
    """A warning if the base model is already a reward model."""
    config: dict[str, Any] = read_json(directory / "config.json") or {}
    heads = [name for name in config.get("architectures") or () if name.endswith(HEADS)]
    if not heads or len(config.get("id2label") or ()) > 1:  # two labels: another task's head
        return []
    return [
        f"the base model {directory} is a reward model already ({heads[0]}): pairs that it was "
        "trained on may be held out here, which nothing can tell; what it never saw, as a source "
        "with `use: eval`, can"
    ]


def base_model(artifact: Artifact) -> BaseModel:
    """The base model of the artifact."""
    described: dict[str, Any] | None = read_json(artifact.path / DESCRIPTION)
    if described is None:
        return describe(artifact.path, {"scratch": artifact.record["ingredients"]["params"]})
    return describe(Path(described["path"]), described["provenance"])


def _scratch_step(params: ScratchParams, ingestion: Artifact) -> Step:
    def build(workspace: Workspace) -> None:
        from tasks.model.scratch import build_scratch, texts

        build_scratch(params, texts(row_shards(ingestion)), workspace.path)
        workspace.report["scratch"] = params.model_dump()

    libraries = ("torch", "transformers", "tokenizers")
    inputs = {"ingestion": ingestion}
    return Step(STAGE, VERSION, SHELF, params, inputs, build, libraries, places=PLACES)
