"""A model to serve, as a local directory: from a path, or downloaded from the MLflow registry."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tasks.errors import RegistrationError
from tasks.registration.params import RegistrationParams
from tasks.registration.registry import store_uri
from tasks.registration.store import client_of_existing, refusals_told

REGISTRY = "models:/"


@contextmanager
def local_model(source: str, root: Path, tracking_uri: str | None) -> Generator[Path, None, None]:
    """The directory of a model; a download is gone afterwards.

    `source`: a directory, or `models:/name@alias` or `models:/name/version`.

    Raises:
        RegistrationError: there is no such directory or version.
    """
    if not source.startswith(REGISTRY):
        if not Path(source).is_dir():
            raise RegistrationError(
                f"{source} is no directory; expected one, or {REGISTRY}name@alias"
            )
        yield Path(source)
        return
    with TemporaryDirectory(prefix="reward-model-") as scratch:
        yield _downloaded(source, root, tracking_uri, scratch)


def _downloaded(source: str, root: Path, tracking_uri: str | None, scratch: str) -> Path:
    params = RegistrationParams(tracking_uri=tracking_uri)
    uri = store_uri(params, root)
    with refusals_told(params, root):
        client_of_existing(params, root)
        from mlflow.artifacts import download_artifacts
        from mlflow.exceptions import MlflowException

        try:
            return Path(
                download_artifacts(source, dst_path=scratch, tracking_uri=uri, registry_uri=uri)
            )
        except MlflowException as error:
            raise RegistrationError(f"{source} cannot be had from {uri}: {error}") from error
