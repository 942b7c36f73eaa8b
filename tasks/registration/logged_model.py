"""A model's files in MLflow's store: MLflow's logged model, one for each model.

    package (model, loader, scale, figures)  ->  logged model  <-  version

What is lost there, or was refused, is uploaded again to the same place.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import RegistrationError
from tasks.registration.params import RegistrationParams
from tasks.registration.proving.download import check_not_moved, local_path, named
from tasks.registration.proving.package import package
from tasks.registration.proving.seal import changed, seal_of, write_sums
from tasks.registration.registry import ARTIFACT_DIGEST, SEAL
from tasks.registration.subject import Subject
from tasks.registration.tags import REFUSED

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel
    from mlflow.entities.model_registry import ModelVersion

CODE = "code"
"""Where MLflow puts the modules that travel."""


def ensure_model(
    client: "MlflowClient",
    experiment: str,
    run_id: str,
    params: RegistrationParams,
    subject: Subject,
    version: "ModelVersion | None",
) -> tuple["LoggedModel", bool]:
    """The logged model with all of its files, and whether they had to be uploaded now.

    `version`: the one that stands, whose own model it is, whatever experiment that is in.

    Raises:
        RegistrationError: that one's files stood where the registry was moved away from, or belong
            to the registry that this one was copied from; or its model was deleted.
    """
    model = _logged_model(client, experiment, run_id, params, subject, version)
    if version is not None:
        check_not_moved(client, version, model.artifact_location)
    local = local_path(model.artifact_location)
    for path in [p for p in local.rglob("*") if p.is_symlink() and not p.exists()]:
        path.unlink()  # it leads nowhere, and nothing can be listed beside it
    refused = version is not None and REFUSED in version.tags
    if not refused and model.status == "READY" and _is_complete(client, model, subject):
        return model, False
    packed = subject.scratch / "package"
    package(subject.model, packed, subject.evaluation.path)
    write_sums(packed)
    _clear_the_way(local, packed)
    _clear_other_modules(client, model, packed)
    client.log_model_artifacts(model.model_id, str(packed))
    client.set_logged_model_tags(model.model_id, {SEAL: seal_of(packed)})
    if model.status != "READY":
        client.finalize_logged_model(model.model_id, "READY")
    return client.get_logged_model(model.model_id), True


def _clear_the_way(local: Path, packed: Path) -> None:
    """Removes, in a store on this machine, directories that stand where a file of the package goes,
    and files where a directory does."""
    for source in packed.rglob("*"):
        place = local / source.relative_to(packed)
        if source.is_file() and place.is_dir():
            shutil.rmtree(place)
        elif source.is_dir() and place.is_file():
            place.unlink()


def _clear_other_modules(client: "MlflowClient", model: "LoggedModel", packed: Path) -> None:
    """Removes inference modules of another release, with which an earlier attempt uploaded: their
    names hold their hash, so those of this one would come to stand beside them."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    stored = {entry.path for entry in client.list_logged_model_artifacts(model.model_id, CODE)}
    if stored - {path.relative_to(packed).as_posix() for path in packed.glob(f"{CODE}/*")}:
        get_artifact_repository(model.artifact_location).delete_artifacts(CODE)


def _logged_model(
    client: "MlflowClient",
    experiment: str,
    run_id: str,
    params: RegistrationParams,
    subject: Subject,
    version: "ModelVersion | None",
) -> "LoggedModel":
    """The one logged model of this subject, an output of its run."""
    from mlflow.entities import LoggedModelOutput

    if version is not None:
        model = _standing_model(client, version)
    elif found := client.search_logged_models(
        [experiment], filter_string=f"tags.{ARTIFACT_DIGEST} = '{subject.digest}'"
    ):
        model = found[0]
    else:
        tags = {ARTIFACT_DIGEST: subject.digest}
        model = client.create_logged_model(experiment, params.model_name, run_id, tags)
    outputs = client.get_run(run_id).outputs
    if model.model_id not in {o.model_id for o in (outputs.model_outputs if outputs else [])}:
        client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    return model


def model_of(version: "ModelVersion") -> str:
    """The id of the logged model whose files are the version's."""
    return version.model_id or str(version.source).removeprefix("models:/")


def _standing_model(client: "MlflowClient", version: "ModelVersion") -> "LoggedModel":
    from mlflow.exceptions import MlflowException

    try:
        return client.get_logged_model(model_of(version))
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise RegistrationError(
            f"{named(version)} has its files in the logged model {model_of(version)}, which was "
            "deleted in MLflow; delete the version, too, and run again: it is registered as a new "
            "one"
        ) from error


def _is_complete(client: "MlflowClient", model: "LoggedModel", subject: Subject) -> bool:
    """Whether the store holds every file of the model at its size; where they can be read in place,
    every file that was registered with its bytes."""
    sizes: dict[str, int | None] = {}
    waiting: list[str | None] = [None]
    while waiting:
        for entry in client.list_logged_model_artifacts(model.model_id, waiting.pop()):
            if entry.is_dir:
                waiting.append(entry.path)
            else:
                sizes[entry.path] = entry.file_size
    if "MLmodel" not in sizes or any(sizes.get(n) != s for n, s in subject.sizes.items()):
        return False
    if SEAL not in model.tags:
        return False
    local = local_path(model.artifact_location)
    return not local.is_dir() or changed(local, model.tags[SEAL]) is None
