"""Old versions leave the registry with their models' files: what a schedule would pile up.

    retire(params, root, keep=10)

Kept are the newest ones, every one that has an alias or that another program registered, and the
champion that a rollback would go back to. Runs stay, with their figures. A retirement that was cut
short is finished by the next.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.artifact.collection import size_of
from tasks.errors import ParamsError, RegistrationError
from tasks.registration.aliases.by_hand import locked_model
from tasks.registration.aliases.locked_aliases import LockedAliases
from tasks.registration.aliases.rollback import reserve
from tasks.registration.logged_model import model_of
from tasks.registration.params import RegistrationParams
from tasks.registration.proving.download import check_not_moved, local_path
from tasks.registration.registry import ARTIFACT_DIGEST, CHAMPION

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion


@dataclass(frozen=True)
class Retired:
    """A version that was taken from the registry, or would be."""

    version: int
    bytes: int
    """Of its model's files; 0 where they are not on this machine, or serve another version."""


def retire(
    params: RegistrationParams, root: Path, *, keep: int, dry_run: bool = False
) -> list[Retired]:
    """Takes all but the `keep` newest versions of a model that may go, the oldest first.

    Raises:
        ParamsError: `keep` is below 1.
        RegistrationError: the registry refuses, or a model's files belong to another registry.
    """
    if keep < 1:
        raise ParamsError(f"keep is {keep}, expected 1 or more: the versions that stay")
    with locked_model(params, root) as aliases:
        client, name = aliases.client, aliases.model_name
        standing = sorted(_versions(client, f"name = '{name}'"), key=lambda v: int(v.version))
        stays = _reserve(aliases)
        uses = Counter(map(model_of, _versions(client)))
        retired: list[Retired] = []
        for version in standing[:-keep]:
            found = client.get_model_version(name, version.version)  # a search tells no aliases
            ours = ARTIFACT_DIGEST in found.tags
            if found.aliases or not ours or int(found.version) == stays:
                continue
            aliases.check_lock()
            uses[model_of(found)] -= 1
            size = _take(client, found, uses[model_of(found)] > 0, dry_run)
            retired.append(Retired(int(found.version), size))
        return retired


def _reserve(aliases: LockedAliases) -> int | None:
    """The version that a rollback would make champion."""
    try:
        return int(reserve(aliases, aliases.holder(CHAMPION)).version)
    except RegistrationError:  # none could
        return None


def _take(client: "MlflowClient", version: "ModelVersion", is_shared: bool, dry_run: bool) -> int:
    """Deletes a version, and before it the files of its model, unless another version (of whatever
    name) shares them; gives their bytes."""
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    size = 0
    try:
        model = client.get_logged_model(model_of(version))
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        model = None  # deleted in MLflow, or by an attempt that was cut short
    if model is not None and not is_shared:
        check_not_moved(client, version, model.artifact_location)
        size = size_of(local_path(model.artifact_location))
        if not dry_run:
            get_artifact_repository(model.artifact_location).delete_artifacts()
            client.delete_logged_model(model.model_id)
    if not dry_run:
        client.delete_model_version(version.name, version.version)
    return size


def _versions(client: "MlflowClient", asked: str | None = None) -> "Iterator[ModelVersion]":
    """The registry's versions, page by page."""
    page = client.search_model_versions(asked)
    yield from page
    while page.token:
        page = client.search_model_versions(asked, page_token=page.token)
        yield from page
