"""Aliases moved by hand: a version promoted, or the champion rolled back, each with its reason.

The version is downloaded and proved first, in a clean process: its files are those that were
registered, and its score contract holds. Who moved what, when and why stays in the history.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tasks.errors import RegistrationError
from tasks.registration.aliases.alias import OUTCOME, REASON, ROLLED_BACK
from tasks.registration.aliases.gate import REJECTED
from tasks.registration.aliases.history import (
    How,
    Move,
    StillOurs,
    actor,
    check_alias,
    former_champions,
    history,
    holder,
    make_champion,
    move_alias,
)
from tasks.registration.aliases.lock import registry_lock
from tasks.registration.params import RegistrationParams
from tasks.registration.proving.proof import prove_again
from tasks.registration.register import REFUSED
from tasks.registration.registry import CHAMPION
from tasks.registration.store import client_of_existing, refusals_told
from tasks.registration.tracking import quietly

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


def promote(
    params: RegistrationParams,
    root: Path,
    version: int,
    *,
    why: str,
    alias: str = CHAMPION,
    despite_gate: bool = False,
) -> Moved:
    """Gives the alias to a version that passes its proof.

    Raises:
        ParamsError: MLflow takes no such alias.
        RegistrationError: there is no such version, it was refused, the gate rejected it (unless
            `despite_gate`), or it does not pass its proof.
    """
    check_alias(alias)
    with _registry(params, root) as (client, still_ours):
        found = _version(client, params.model_name, version)
        if found.tags.get(OUTCOME) == REJECTED and not despite_gate:
            raise RegistrationError(
                f"version {version} of {found.name!r} was rejected by the gate: "
                f"{found.tags.get(REASON, '')}; promote it with --despite-gate if you know better"
            )
        proof = _proved(client, found, why)
        moved = _move(client, found, alias, "promote", why, proof, still_ours)
        if ROLLED_BACK in found.tags:
            client.delete_model_version_tag(found.name, found.version, ROLLED_BACK)
    return moved


def rollback(
    params: RegistrationParams, root: Path, *, why: str, from_version: int | None = None
) -> Moved:
    """Gives `champion` back to the one before; the present one is not made champion by a run again.

    The same rollback asked for twice is one rollback, however the first attempt ended: where the
    champion stands because of a rollback, nothing moves. To go one further back, `from_version`
    names the champion to go back from; it also keeps a rollback from meeting another champion than
    the one that it was meant for.

    Raises:
        RegistrationError: there is no champion, another than `from_version`, none before it that
            may serve, or that one does not pass its proof.
    """
    name = params.model_name
    with _registry(params, root) as (client, still_ours):
        present = holder(client, name, CHAMPION)
        if present is None:
            raise RegistrationError(f"{name!r} has no champion to roll back; promote a version")
        last = next((m for m in reversed(history(client, name)) if m.alias == CHAMPION), None)
        stands = last is not None and (last.how, last.version) == ("rollback", present)
        if last and stands and from_version in (None, last.previous):
            return _finished(client, name, last, present, still_ours)
        if from_version not in (None, present):
            raise RegistrationError(
                f"the champion of {name!r} is version {present}, not {from_version}: somebody "
                f"moved it (reward-pipeline alias-history {name}); name the one to go back from"
            )
        return _rolled_back(client, name, present, why, still_ours)


def _rolled_back(
    client: "MlflowClient", name: str, present: int, why: str, still_ours: StillOurs
) -> Moved:
    passed_over: list[str] = []
    for number in former_champions(history(client, name)):
        try:
            found = _version(client, name, number)
        except RegistrationError as error:
            passed_over.append(str(error))
            continue
        if number == present or ROLLED_BACK in found.tags:
            continue
        proof = _proved(client, found, why)
        # Before the move: cut short in between, the same command goes on from here.
        client.set_model_version_tag(name, str(present), ROLLED_BACK, why[:500])
        return _move(client, found, CHAMPION, "rollback", why, proof, still_ours)
    raise RegistrationError(
        f"{name!r} had no champion before version {present} that could take its place"
        + "".join(f"; {reason}" for reason in passed_over)
        + "; promote a version by its number"
    )


def _finished(
    client: "MlflowClient", name: str, last: Move, present: int, still_ours: StillOurs
) -> Moved:
    """A rollback that was made; what a cut short attempt did not come to is done now."""
    found = _version(client, name, present)
    make_champion(client, found, last.how, last.why, still_ours)
    _say(client, found, CHAMPION, last.how, last.who, last.why)
    told = f"rolled back by {last.who} at {last.when}: {last.why}"
    return Moved(name, CHAMPION, last.previous, present, told, already=True)


def moves(params: RegistrationParams, root: Path) -> list[Move]:
    """The moves of the model's aliases, oldest first."""
    with refusals_told(params, root):
        client = client_of_existing(params, root)
        _registered(client, params.model_name)
        return history(client, params.model_name)


@contextmanager
def _registry(
    params: RegistrationParams, root: Path
) -> Generator[tuple["MlflowClient", StillOurs], None, None]:
    with refusals_told(params, root):
        client = client_of_existing(params, root)
        _registered(client, params.model_name)
        with registry_lock(client, params, root) as still_ours:
            yield client, still_ours


def _proved(client: "MlflowClient", version: "ModelVersion", why: str) -> str:
    """How the version passed its proof; asked for only where there is a reason to move."""
    if not why.strip():
        raise RegistrationError("a move by hand needs a reason: --why 'reward hacking on lists'")
    with TemporaryDirectory(prefix="reward-pipeline-") as scratch, quietly():
        return prove_again(client, version, Path(scratch)).sentence


def _move(
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
    _say(client, version, alias, how, actor(), why)
    return Moved(name, alias, previous, number, proof)


def _say(
    client: "MlflowClient", version: "ModelVersion", alias: str, how: How, who: str, why: str
) -> None:
    told = f"{how} to {alias} by {who}: {why[:500]}"
    client.set_model_version_tag(version.name, version.version, BY_HAND, told)


def _registered(client: "MlflowClient", name: str) -> None:
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


def _version(client: "MlflowClient", name: str, number: int) -> "ModelVersion":
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
