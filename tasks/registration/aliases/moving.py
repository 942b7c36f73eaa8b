"""What every move of an alias by hand goes through, whichever way it goes.

The registry is locked, the version downloaded and proved in a clean process (its files are those
that were registered, and its score contract holds), the alias moved, and the version says so.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tasks.errors import RegistrationError
from tasks.registration.aliases.history import (
    How,
    StillOurs,
    actor,
    holder,
    make_champion,
    move_alias,
)
from tasks.registration.aliases.lock import registry_lock
from tasks.registration.params import RegistrationParams
from tasks.registration.proving.proof import prove_again
from tasks.registration.quiet import quietly
from tasks.registration.register import REFUSED
from tasks.registration.registry import CHAMPION
from tasks.registration.store import client_of_existing, refusals_told

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

BY_HAND = "by_hand"


@dataclass(frozen=True)
class Moved:
    """An alias that was moved by hand."""

    name: str
    alias: str
    previous: int | None
    version: int
    proof: str
    already: bool = False
    """It was moved before: nothing was moved now."""


@contextmanager
def registry_of(
    params: RegistrationParams, root: Path
) -> Generator[tuple["MlflowClient", StillOurs], None, None]:
    """The client of a registry that is locked meanwhile, and what tells that it still is."""
    with refusals_told(params, root):
        client = client_of_existing(params, root)
        check_model_exists(client, params.model_name)
        with registry_lock(client, params, root) as still_ours:
            yield client, still_ours


def proof_of(client: "MlflowClient", version: "ModelVersion", why: str) -> str:
    """How the version passed its proof; asked for only where there is a reason to move."""
    if not why.strip():
        raise RegistrationError("a move by hand needs a reason: --why 'reward hacking on lists'")
    with TemporaryDirectory(prefix="reward-pipeline-") as scratch, quietly():
        return prove_again(client, version, Path(scratch)).sentence


def move_by_hand(
    client: "MlflowClient",
    version: "ModelVersion",
    alias: str,
    how: How,
    why: str,
    proof: str,
    still_ours: StillOurs,
) -> Moved:
    """Moves the alias to a proved version, and says so on it."""
    name, number = version.name, int(version.version)
    previous = holder(client, name, alias)
    if alias == CHAMPION:
        make_champion(client, version, how, why, still_ours)
    else:
        move_alias(client, name, alias, number, how, why, still_ours)
    say(client, version, alias, how, actor(), why)
    return Moved(name, alias, previous, number, proof)


def say(
    client: "MlflowClient", version: "ModelVersion", alias: str, how: How, who: str, why: str
) -> None:
    """Says on the version what was moved to it."""
    told = f"{how} to {alias} by {who}: {why[:500]}"
    client.set_model_version_tag(version.name, version.version, BY_HAND, told)


def check_model_exists(client: "MlflowClient", name: str) -> None:
    """Refuses a name that the registry holds no model of."""
    from mlflow.exceptions import MlflowException

    try:
        client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise RegistrationError(
            f"{client.tracking_uri} holds no registered model {name!r}; run the pipeline, or name "
            "another root (--root) or store (--tracking-uri)"
        ) from error


def version_of(client: "MlflowClient", name: str, number: int) -> "ModelVersion":
    """The version, if it may have an alias."""
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_model_version(name, str(number))
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise
        raise RegistrationError(f"{name!r} has no version {number}") from error
    if REFUSED in found.tags:
        raise RegistrationError(
            f"version {number} of {name!r} was refused: {found.tags[REFUSED]}; run the pipeline "
            "that made it again"
        )
    return found
