"""One version in the registry per (training, evaluation): made, proved, and given its alias.

    run -> logged model -> version -> proof -> alias -> receipt

Every step looks first for what an earlier attempt left, by tag, and goes on from there: a kill
between any two leaves nothing doubled. One lock covers them, so versions are compared and aliases
moved by one process at a time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.errors import PipelineError, RegistrationError
from tasks.registration.alias import ensure_alias
from tasks.registration.facts import lineage_tags, log_facts, stage_keys
from tasks.registration.package import package
from tasks.registration.params import RegistrationParams
from tasks.registration.proof import download, prove
from tasks.registration.registry import ARTIFACT_DIGEST
from tasks.registration.subject import Subject
from tasks.registration.tracking import client_for, experiment_for, registry_lock, run_for

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel
    from mlflow.entities.model_registry import ModelVersion

PROVED, REFUSED = "verified", "refused"


def register(
    params: RegistrationParams, root: Path, subject: Subject, context: Mapping[str, Any]
) -> dict[str, Any]:
    """What `registered.json` holds, once the registry holds the version.

    Raises:
        RegistrationError: the downloaded version is not what was trained, or MLflow refuses.
    """
    client = client_for(params, root)
    experiment = experiment_for(client, params, root)
    run_id = run_for(client, params, root, subject.training.key)
    log_facts(client, run_id, subject, context)
    with registry_lock(root):
        earlier = find_version(client, params, subject)
        anew = earlier is not None and REFUSED in earlier.tags
        model, uploaded = ensure_model(client, experiment, run_id, params, subject, anew=anew)
        version = earlier or create_version(client, params, subject, run_id, model)
        if uploaded or PROVED not in version.tags:
            ensure_proof(client, version, subject)
        decided = ensure_alias(client, params, version, subject)
    client.set_terminated(run_id, "FINISHED")
    return {
        "name": params.model_name,
        "version": int(version.version),
        "alias": decided.alias,
        "decision": decided.reason,
        "run_id": run_id,
        "model_uri": f"models:/{params.model_name}/{version.version}",
        "logged_model_id": model.model_id,
        ARTIFACT_DIGEST: subject.digest,
        "location": model.artifact_location.removeprefix("file://"),
        "files": subject.sizes,
    }


def ensure_model(
    client: "MlflowClient",
    experiment: str,
    run_id: str,
    params: RegistrationParams,
    subject: Subject,
    *,
    anew: bool,
) -> tuple["LoggedModel", bool]:
    """The logged model with all of its files, and whether they had to be uploaded now."""
    model = _logged_model(client, experiment, run_id, params, subject)
    if not anew and model.status == "READY" and _is_complete(client, model.model_id, subject):
        return model, False
    package(subject.model, subject.scratch / "package")
    client.log_model_artifacts(model.model_id, str(subject.scratch / "package"))
    if model.status != "READY":
        model = client.finalize_logged_model(model.model_id, "READY")
    return model, True


def _logged_model(
    client: "MlflowClient",
    experiment: str,
    run_id: str,
    params: RegistrationParams,
    subject: Subject,
) -> "LoggedModel":
    """The one logged model of this subject, an output of its run."""
    from mlflow.entities import LoggedModelOutput

    found = client.search_logged_models(
        [experiment], filter_string=f"tags.{ARTIFACT_DIGEST} = '{subject.digest}'"
    )
    if found:
        model = found[0]
    else:
        tags = {ARTIFACT_DIGEST: subject.digest}
        model = client.create_logged_model(experiment, params.model_name, run_id, tags)
    outputs = client.get_run(run_id).outputs
    if model.model_id not in {o.model_id for o in (outputs.model_outputs if outputs else [])}:
        client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    return model


def _is_complete(client: "MlflowClient", model_id: str, subject: Subject) -> bool:
    """Whether the store holds every file of the model, at its size."""
    sizes: dict[str, int | None] = {}
    waiting: list[str | None] = [None]
    while waiting:
        for entry in client.list_logged_model_artifacts(model_id, waiting.pop()):
            if entry.is_dir:
                waiting.append(entry.path)
            else:
                sizes[entry.path] = entry.file_size
    return "MLmodel" in sizes and all(sizes.get(n) == size for n, size in subject.sizes.items())


def find_version(
    client: "MlflowClient", params: RegistrationParams, subject: Subject
) -> "ModelVersion | None":
    """The version that an earlier attempt made of this subject."""
    found = client.search_model_versions(
        f"name = '{params.model_name}' and tags.{ARTIFACT_DIGEST} = '{subject.digest}'"
    )
    return client.get_model_version(params.model_name, found[0].version) if found else None


def create_version(
    client: "MlflowClient",
    params: RegistrationParams,
    subject: Subject,
    run_id: str,
    model: "LoggedModel",
) -> "ModelVersion":
    """A new version, with its tags from the first moment: there is no version without them."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(params.model_name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    metrics = subject.evaluation.report["metrics"]
    keys = stage_keys(subject.training, subject.evaluation, subject.tokenization)
    tags = {
        ARTIFACT_DIGEST: subject.digest,
        "accuracy": f"{metrics['accuracy']:.4f}",
        "margin": f"{metrics['margin']:.4f}",
        "loss": f"{metrics['loss']:.5f}",
        "pairs": str(metrics["pairs"]),
        **lineage_tags(keys, subject.training),
    }
    source = f"models:/{model.model_id}"
    return client.create_model_version(
        params.model_name, source, run_id, tags, model_id=model.model_id
    )


def ensure_proof(client: "MlflowClient", version: "ModelVersion", subject: Subject) -> None:
    """Downloads the version, scores the pairs again, and tags it as proved.

    Raises:
        RegistrationError: it is not what was trained; the version is tagged with the reason.
    """
    try:
        downloaded = download(client, version, subject.scratch / "downloaded")
        proof = prove(downloaded, subject.training, subject.evaluation, subject.tokenization)
    except Exception as error:
        client.set_model_version_tag(version.name, version.version, REFUSED, str(error)[:500])
        if isinstance(error, PipelineError):
            raise
        raise RegistrationError(
            f"version {version.version} of {version.name!r} cannot be downloaded and scored again: "
            f"{type(error).__name__}: {error}; it gets no alias"
        ) from error
    client.set_model_version_tag(version.name, version.version, PROVED, proof)
    if REFUSED in version.tags:
        client.delete_model_version_tag(version.name, version.version, REFUSED)
