"""A model to serve, as a local directory: from a path, or downloaded from the MLflow registry."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from tasks.errors import RegistrationError
from tasks.ingestion.redaction import redacted
from tasks.registration.address import store_uri
from tasks.registration.params import RegistrationParams
from tasks.registration.store import client_of_existing, refusals_told

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

REGISTRY = "models:/"


class LocalModel(NamedTuple):
    """A model's directory here, and the name that tells it from any other."""

    directory: Path
    name: str
    """`models:/name/version`, also of an alias: that moves on while the version is served."""


@contextmanager
def local_model(
    source: str, root: Path, registry: RegistrationParams
) -> Generator[LocalModel, None, None]:
    """A model to be loaded; a download is gone afterwards.

    `source`: a directory, or `models:/name@alias` or `models:/name/version`.

    Raises:
        RegistrationError: there is no such directory or version, or its files are others than were
            registered.
    """
    if not source.startswith(REGISTRY):
        if not Path(source).is_dir():
            raise RegistrationError(
                f"{source} is no directory; expected one, or {REGISTRY}name@alias"
            )
        yield LocalModel(Path(source), source)
        return
    with TemporaryDirectory(prefix="reward-model-") as scratch:
        yield _downloaded(source, root, registry, scratch)


def _downloaded(source: str, root: Path, registry: RegistrationParams, scratch: str) -> LocalModel:
    uri = store_uri(registry, root)
    with refusals_told(registry, root):
        client = client_of_existing(registry, root)
        from mlflow.exceptions import MlflowException

        from tasks.registration.proving.download import check_registered, download

        try:
            version = _version(client, source)
        except MlflowException as error:
            said = redacted(f"{source} cannot be had from {uri}: {error}")
            raise RegistrationError(said) from error
        directory = download(client, version, Path(scratch) / "model")
    check_registered(version, directory)
    return LocalModel(directory, f"{REGISTRY}{version.name}/{version.version}")


def _version(client: "MlflowClient", source: str) -> "ModelVersion":
    """The version that `models:/name@alias` or `models:/name/version` means now."""
    reference = source.removeprefix(REGISTRY)
    name, at, alias = reference.partition("@")
    if at:
        return client.get_model_version_by_alias(name, alias)
    name, _, number = reference.partition("/")
    if not number.isdecimal():
        raise RegistrationError(
            f"{source} names no version; expected {REGISTRY}name@alias or {REGISTRY}name/version"
        )
    return client.get_model_version(name, number)
