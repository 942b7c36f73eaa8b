"""Registration as a step: the artifact is the receipt of what the MLflow registry holds, with the
report on the decision.

A receipt serves only while the registry still holds the version and its files; when it does not,
the stage is built again, with that as the reason.
"""

from functools import partial
from pathlib import Path
from typing import Any

from tasks.artifact import Artifact, Step, Workspace
from tasks.artifact.durable import read_json
from tasks.ingestion.redaction import redacted
from tasks.registration.params import RegistrationParams
from tasks.registration.registry import still_registered

VERSION = 11
SHELF = "7_registration"
RECEIPT = "registered.json"
SHOWN = (
    *("name", "version", "alias", "outcome", "decision", "bounds"),
    *("run_id", "model_uri", "report_uri"),
)
"""Of the receipt, what stands in the artifact's report."""


def step(
    params: RegistrationParams,
    root: Path,
    training: Artifact,
    evaluation: Artifact,
    tokenization: Artifact,
    context: dict[str, Any],
) -> Step:
    """The registration of a trained and evaluated model.

    `root` holds `mlruns/`. `context["params"]`: the params of all stages, for the run. What is
    recorded of the store's address has no secret of it.
    """
    address = params.tracking_uri and redacted(params.tracking_uri)
    return Step(
        stage="registration",
        version=VERSION,
        shelf=SHELF,
        params=params.model_copy(update={"tracking_uri": address}),
        inputs={"training": training, "evaluation": evaluation, "tokenization": tokenization},
        build=partial(build, params, root, training, evaluation, tokenization, context),
        still_valid=lambda artifact: still_registered(
            receipt(artifact), params.tracking_uri, root, since(artifact)
        ),
    )


def receipt(artifact: Artifact) -> dict[str, Any]:
    """What `registered.json` says: name, version, alias at registration, run, model."""
    return read_json(artifact.path / RECEIPT)


def since(artifact: Artifact) -> int:
    """When the receipt was written, in nanoseconds: files touched later are read again."""
    return (artifact.path / RECEIPT).stat().st_ctime_ns


def build(
    params: RegistrationParams,
    root: Path,
    training: Artifact,
    evaluation: Artifact,
    tokenization: Artifact,
    context: dict[str, Any],
    workspace: Workspace,
) -> None:
    """Registers the model and writes the receipt.

    Raises:
        RegistrationError: the version in the registry is not what was trained, or MLflow refuses.
    """
    from tasks.registration.register import register
    from tasks.registration.store import refusals_told
    from tasks.registration.subject import Subject

    subject = Subject(training, evaluation, tokenization, workspace.scratch)
    with refusals_told(params, root):
        registered = register(params, root, subject, context)
    workspace.write_json(RECEIPT, registered)
    workspace.report.update({name: registered[name] for name in SHOWN})
    workspace.report["warnings"] = evaluation.report["warnings"]
    workspace.report["rows"] = evaluation.report["rows"]
