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
from tasks.ingestion.redaction import redacted
from tasks.registration.aliases.lock import registry_lock
from tasks.registration.aliases.locked_aliases import LockedAliases, Reason, actor
from tasks.registration.params import RegistrationParams
from tasks.registration.proving.proof import prove_again
from tasks.registration.quiet import quietly
from tasks.registration.registry import CHAMPION
from tasks.registration.store import client_of_existing, refusals_told
from tasks.registration.tags import REFUSED

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

BY_HAND = "by_hand"
"""Tag of a version: the last move by hand to it."""


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
def locked_model(params: RegistrationParams, root: Path) -> Generator[LockedAliases, None, None]:
    """The aliases of a model that is registered already, locked meanwhile."""
    with refusals_told(params, root):
        client = client_of_model(params, root)
        with registry_lock(client, params, root) as aliases:
            yield aliases


def client_of_model(params: RegistrationParams, root: Path) -> "MlflowClient":
    """A client of the registry that holds the model.

    Raises:
        RegistrationError: there is no such registry, or it holds no such model.
    """
    client = client_of_existing(params, root)
    from mlflow.exceptions import MlflowException

    try:
        client.get_registered_model(params.model_name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise RegistrationError(
            f"{redacted(client.tracking_uri)} holds no registered model {params.model_name!r}; run "
            "the pipeline, or name another root (--root) or store (--tracking-uri)"
        ) from error
    return client


def version_of(aliases: LockedAliases, number: int) -> "ModelVersion":
    """The version of this number, if it may have an alias."""
    from mlflow.exceptions import MlflowException

    name = aliases.model_name
    try:
        found = aliases.version(number)
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


def proof_of(client: "MlflowClient", version: "ModelVersion", why: str) -> str:
    """How the version passed its proof; asked for only where there is a reason to move."""
    if not why.strip():
        raise RegistrationError("a move by hand needs a reason: --why 'reward hacking on lists'")
    with TemporaryDirectory(prefix="reward-pipeline-") as scratch, quietly():
        return prove_again(client, version, Path(scratch)).sentence


def move_by_hand(
    aliases: LockedAliases, version: "ModelVersion", alias: str, reason: Reason, proof: str
) -> Moved:
    """Moves the alias to a proved version, and says so on it."""
    number, previous = int(version.version), aliases.holder(alias)
    if alias == CHAMPION:
        aliases.make_champion(version, reason)
    else:
        aliases.move(alias, number, reason)
    say(aliases.client, version, alias, reason, actor())
    return Moved(aliases.model_name, alias, previous, number, proof)


def say(
    client: "MlflowClient", version: "ModelVersion", alias: str, reason: Reason, who: str
) -> None:
    """Says on the version which alias was moved to it, by whom and why."""
    told = f"{reason.how} to {alias} by {who}: {reason.why[:500]}"
    client.set_model_version_tag(version.name, version.version, BY_HAND, told)
