"""A version's files, copied from where the registry says that they are, and known as its own."""

import errno
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import RegistrationError
from tasks.ingestion.redaction import redacted
from tasks.registration.address import database_path, is_of_another
from tasks.registration.proving.package import identity
from tasks.registration.proving.seal import changed
from tasks.registration.registry import ARTIFACT_DIGEST, SEAL

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

NO_ROOM = f"[Errno {errno.ENOSPC}]"
"""How MLflow tells of a full disk, within a text of one paragraph a file."""
NO_ANSWER = re.compile(
    r"API request to \S+ failed with .*|(Connection broken|Read timed out)[^']*"
    r"|[^\n']*\bendpoint URL\b.*"
)
"""How it tells there of a server or S3 that is away, and of an answer that broke off."""


def download(client: "MlflowClient", version: "ModelVersion", destination: Path) -> Path:
    """A fresh copy of a version's files.

    Raises:
        RegistrationError: there are none where the registry says that they are, or no room here;
            or its server does not answer.
    """
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    shutil.rmtree(destination, ignore_errors=True)
    destination.mkdir(parents=True)
    uri = client.tracking_uri
    model_uri = f"models:/{version.name}/{version.version}"
    try:
        copy = download_artifacts(
            model_uri, dst_path=str(destination), tracking_uri=uri, registry_uri=uri
        )
    except MlflowException as error:
        if NO_ROOM in str(error):
            raise RegistrationError(
                f"no space is left for a copy of {named(version)} below {destination}; make room "
                "there (commands copy into the directory that TMPDIR names), and run again"
            ) from error
        if found := NO_ANSWER.search(str(error)):
            raise RegistrationError(
                redacted(f"MLflow's store {uri} did not hand out the files of {named(version)}: ")
                + f"{redacted(found[0].strip())}; run again once it answers"
            ) from error
        raise
    if not any(destination.rglob("*.*")):
        place = client.get_model_version_download_uri(version.name, version.version)
        raise _no_files(uri, version, place)
    return Path(copy)


def check_not_moved(client: "MlflowClient", version: "ModelVersion", place: str) -> None:
    """Refuses a version whose files stood where the registry was moved away from, or stand in the
    one that it was copied from, which nothing is written into.

    Raises:
        RegistrationError: they did, and nothing is there any more; or they do.
    """
    if not _stands_elsewhere(client.tracking_uri, place):
        return
    if not local_path(place).exists():
        raise _no_files(client.tracking_uri, version, place)
    database = database_path(client.tracking_uri)
    if database and is_of_another(local_path(place), database):
        raise RegistrationError(
            f"{named(version)} has its files at {place}, which belong to the registry beside them; "
            f"this one, {database}, is a copy of that: set registration.experiment_name and "
            "registration.model_name to new names, and all is kept here"
        )


def _no_files(uri: str, version: "ModelVersion", place: str) -> RegistrationError:
    """Files that are gone come again by a run; but for a registry that was moved, whose database
    names the old place for all of them, that of new ones included."""
    what_to_do = "Move them back, or run the pipeline that made it again"
    if _stands_elsewhere(uri, place):
        what_to_do = (
            f"The registry's database, now {database_path(uri)}, was made where its files stood: "
            "move its directory back there; a run registers nothing from here"
        )
    return RegistrationError(
        f"{named(version)} has no files at {place}, where the registry says that they are: "
        f"they were moved or removed. {what_to_do}"
    )


def _stands_elsewhere(uri: str, place: str) -> bool:
    database = database_path(uri)
    return database is not None and not local_path(place).is_relative_to(database.parent)


def local_path(place: str) -> Path:
    """The directory that MLflow's address of files on this machine means."""
    return Path(place.removeprefix("file://"))


def check_registered(version: "ModelVersion", downloaded: Path) -> None:
    """Refuses files that are others than were registered; nobody knows those of a version that
    this pipeline did not register.

    Raises:
        RegistrationError: they are.
    """
    registered, seal = version.tags.get(ARTIFACT_DIGEST), version.tags.get(SEAL)
    if registered is None:
        return
    other = changed(downloaded, seal) if seal else None
    if other is not None or (seal is None and identity(downloaded) != registered):
        raise RegistrationError(
            f"the files of {named(version)} are not those that were registered"
            f"{f', first {other}' if other else ''}; run the pipeline that made it again, which "
            "uploads them anew"
        )


def named(version: "ModelVersion") -> str:
    """The version as messages name it."""
    return f"version {version.version} of {version.name!r}"
