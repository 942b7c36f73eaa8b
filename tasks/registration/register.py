"""One version in the registry per model: made, proved, judged, and given its alias.

    run -> logged model -> version -> proof -> decision -> report -> alias -> receipt

A model is known by the digest of its own files: a new evaluation of the same weights makes no new
version, but is proved, judged and tagged on the one that stands.

Every step looks first for what an earlier attempt left, by tag, and goes on from there: a kill
between any two leaves nothing doubled. One lock covers them, so versions are compared and aliases
moved by one process at a time.
"""

import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.errors import PipelineError, RegistrationError, VersionError
from tasks.registration.aliases.decision import ensure_decision
from tasks.registration.aliases.lock import registry_lock
from tasks.registration.experiment import experiment_for
from tasks.registration.facts import log_facts, stage_keys
from tasks.registration.loader.allowed_files import SUMS
from tasks.registration.logged_model import ensure_model
from tasks.registration.params import RegistrationParams
from tasks.registration.proving.download import download, local_path, named
from tasks.registration.proving.proof import prove
from tasks.registration.proving.seal import listed
from tasks.registration.publication import PLACE, REPORT, published
from tasks.registration.registry import ARTIFACT_DIGEST, CHALLENGER, CHAMPION, SEAL
from tasks.registration.subject import Subject
from tasks.registration.tags import CONTRACT, REFUSED, SEQUENCE, figure_tags, lineage_tags
from tasks.registration.tracking import client_for, run_for, sequence_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel
    from mlflow.entities.model_registry import ModelVersion

PROVED, EVALUATED = "verified", "evaluation_digest"
"""Tags of a version: its proof in words, and the evaluation that it was made with."""


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
    with _ending(client, run_id):
        log_facts(client, run_id, subject, context)
        with registry_lock(client, params, root) as aliases:
            earlier = find_version(client, params, subject)
            model, uploaded = ensure_model(client, experiment, run_id, params, subject, earlier)
            version = earlier or create_version(client, params, subject, run_id, model)
            if version.tags.get(SEAL) != model.tags[SEAL]:
                client.set_model_version_tag(version.name, version.version, SEAL, model.tags[SEAL])
            if uploaded or not _is_proved(version, subject):
                ensure_proof(client, version, subject)
            decided = ensure_decision(aliases, params, version, run_id, subject)
            told = published(client, run_id, subject.scratch)
            if told and uploaded:  # over files that were lost: what was decided of them is no news
                client.log_model_artifacts(model.model_id, str(told), PLACE)
            held = client.get_model_version(version.name, version.version).aliases
    if told:
        shutil.copyfile(told / REPORT, subject.scratch.parent / REPORT)
    return {
        "name": params.model_name,
        "version": int(version.version),
        "alias": next((a for a in (CHAMPION, CHALLENGER) if a in held), None),
        "outcome": decided.outcome,
        "decision": decided.reason,
        "bounds": decided.to_json()["bounds"],
        "run_id": run_id,
        "model_uri": f"models:/{params.model_name}/{version.version}",
        "report_uri": f"runs:/{run_id}/{PLACE}/{REPORT}" if told else None,
        "logged_model_id": model.model_id,
        ARTIFACT_DIGEST: subject.digest,
        SEAL: model.tags[SEAL],
        "location": model.artifact_location.removeprefix("file://"),
        "files": _sizes(local_path(model.artifact_location)),
    }


@contextmanager
def _ending(client: "MlflowClient", run_id: str) -> Generator[None, None, None]:
    """Inside, the run is worked on; then it is finished, failed or, if that was interrupted,
    killed: it is not left `RUNNING`."""
    try:
        yield
    except BaseException as error:
        with suppress(Exception):  # MLflow may be what failed
            client.set_terminated(run_id, "FAILED" if isinstance(error, Exception) else "KILLED")
        raise
    client.set_terminated(run_id, "FINISHED")


def _sizes(place: Path) -> dict[str, int]:
    """`{name: bytes}` of the registered files; of a store that is not on this machine, none."""
    if not place.is_dir():
        return {}
    return {name: (place / name).stat().st_size for name in (SUMS, *listed(place))}


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
    keys = stage_keys(subject.training, subject.evaluation, subject.tokenization)
    tags = {
        ARTIFACT_DIGEST: subject.digest,
        SEQUENCE: str(sequence_of(client, params, run_id)),
        SEAL: model.tags[SEAL],
        **figure_tags(subject),
        **lineage_tags(keys, subject.training),
    }
    source = f"models:/{model.model_id}"
    return client.create_model_version(
        params.model_name, source, run_id, tags, model_id=model.model_id
    )


def _is_proved(version: "ModelVersion", subject: Subject) -> bool:
    """Whether the version was proved with this evaluation."""
    tags = version.tags
    return PROVED in tags and tags.get(EVALUATED) == subject.evaluation.digest


def ensure_proof(client: "MlflowClient", version: "ModelVersion", subject: Subject) -> None:
    """Downloads the version, scores the pairs again, and tags it as proved.

    Raises:
        VersionError: it is not what was trained; the version is tagged with the reason.
        RegistrationError: it could not be downloaded or asked, which says nothing about it.
    """
    try:
        downloaded = download(client, version, subject.scratch / "downloaded")
        proof = prove(downloaded, subject)
    except VersionError as error:
        client.set_model_version_tag(version.name, version.version, REFUSED, str(error)[:500])
        raise
    except PipelineError:
        raise
    except Exception as error:
        raise RegistrationError(
            f"{named(version)} cannot be downloaded and scored again: "
            f"{type(error).__name__}: {error}; it gets no alias yet: run again"
        ) from error
    tags = {CONTRACT: str(proof.golden or 0), PROVED: proof.sentence, **figure_tags(subject)}
    for name, value in {**tags, EVALUATED: subject.evaluation.digest}.items():
        client.set_model_version_tag(version.name, version.version, name, value)
    if REFUSED in version.tags:
        client.delete_model_version_tag(version.name, version.version, REFUSED)
