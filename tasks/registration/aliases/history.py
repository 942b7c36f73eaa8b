"""Who moved which alias, from where to where, when and why: tags of the registered model.

    move.00007      {"alias": "champion", "previous": 3, "version": 5, "how": "register", ...}
    champion_mark   "12.5": run sequence and version of the newest run that was ever champion

A move is written down first and made then, and read back: an attempt that is cut short in between
finds its own entry and goes on. An entry whose move was never made is left out: the next one
starts where it started; one whose move the registry refuses is taken back.
"""

import getpass
import json
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from tasks.errors import ParamsError, RegistrationError, shown
from tasks.registration.registry import CHALLENGER, CHAMPION

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

MOVE, MARK = "move.", "champion_mark"
ALIAS = re.compile(r"[\w-]{1,255}")
RESERVED_ALIAS = re.compile(r"(?i)latest|v\d+")
"""What MLflow takes as an alias, and what of it means a version already."""
SEQUENCE = "sequence"
"""Tag of a version: the place of its run in the order in which runs began."""

How = Literal["register", "promote", "rollback"]
StillOurs = Callable[[], None]
"""Raises when the registry's lock was lost meanwhile."""


@dataclass(frozen=True)
class Move:
    """One move of an alias; `version` None takes it away, `previous` None: nobody had it."""

    alias: str
    previous: int | None
    version: int | None
    how: How
    why: str
    who: str
    when: str


def actor() -> str:
    """Who moves aliases from here: user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "unnamed"
    return f"{user}@{socket.gethostname()}"


def check_alias(alias: str) -> None:
    """Refuses what MLflow would refuse, before any work is done for it.

    Raises:
        ParamsError: the alias has other characters, or is one that MLflow keeps for itself.
    """
    if not ALIAS.fullmatch(alias):
        raise ParamsError(
            f"alias is {shown(alias)}, expected 1 to 255 letters, digits, underscores and dashes"
        )
    if RESERVED_ALIAS.fullmatch(alias):
        raise ParamsError(
            f"alias is {shown(alias)}, which MLflow keeps for versions by their number; give "
            "another, such as staging"
        )


def holder(client: "MlflowClient", name: str, alias: str) -> int | None:
    """The version that has the alias."""
    version = client.get_registered_model(name).aliases.get(alias)
    return None if version is None else int(version)


def move_alias(
    client: "MlflowClient",
    name: str,
    alias: str,
    version: int | None,
    how: How,
    why: str,
    still_ours: StillOurs,
) -> None:
    """Gives the alias to the version, or takes it away, and writes that down once.

    Raises:
        RegistrationError: the registry refuses the move, or does not hold what was set.
    """
    previous = holder(client, name, alias)
    if previous == version:
        return
    written = entries(client.get_registered_model(name).tags)
    move = Move(alias, previous, version, how, why[:1000], actor(), _now())
    number = max(written, default=0)
    if not (written and _same(written[number], move)):
        number += 1
        client.set_registered_model_tag(name, f"{MOVE}{number:05d}", json.dumps(asdict(move)))
    still_ours()
    _set_alias(client, name, move, number)
    held = holder(client, name, alias)
    if held != version:
        raise RegistrationError(
            f"alias {alias!r} of {name!r} was set to version {version}, but the registry holds "
            f"{held}: somebody else moved it; run again"
        )


def _set_alias(client: "MlflowClient", name: str, move: Move, number: int) -> None:
    """Makes the move of entry `number`, which does not stay where the registry refuses it."""
    from mlflow.exceptions import MlflowException

    try:
        if move.version is None:
            client.delete_registered_model_alias(name, move.alias)
        else:
            client.set_registered_model_alias(name, move.alias, str(move.version))
    except MlflowException as error:
        if error.error_code != "INVALID_PARAMETER_VALUE":
            raise
        client.delete_registered_model_tag(name, f"{MOVE}{number:05d}")
        raise RegistrationError(
            f"alias {move.alias!r} of {name!r} was not set to version {move.version}: {error}"
        ) from error


def make_champion(
    client: "MlflowClient", version: "ModelVersion", how: How, why: str, still_ours: StillOurs
) -> None:
    """Moves `champion` to the version; it is no challenger any more."""
    name, number = version.name, int(version.version)
    if mark_of(version) > champion_mark(client, name):
        client.set_registered_model_tag(name, MARK, "{}.{}".format(*mark_of(version)))
    move_alias(client, name, CHAMPION, number, how, why, still_ours)
    if holder(client, name, CHALLENGER) == number:
        move_alias(client, name, CHALLENGER, None, how, f"champion now: {why}", still_ours)


def mark_of(version: "ModelVersion") -> tuple[int, int]:
    """The version's place in the order of runs: their beginning, then the version's number."""
    return int(version.tags.get(SEQUENCE, 0)), int(version.version)


def champion_mark(client: "MlflowClient", name: str) -> tuple[int, int]:
    """The newest run that was ever champion."""
    text = client.get_registered_model(name).tags.get(MARK, "0.0")
    sequence, _, number = text.partition(".")
    return int(sequence), int(number)


def entries(tags: Mapping[str, str]) -> dict[int, Move]:
    """The moves that are written in a registered model's tags, by number."""
    found = {int(k.removeprefix(MOVE)): v for k, v in tags.items() if k.startswith(MOVE)}
    return {number: Move(**json.loads(found[number])) for number in sorted(found)}


def history(client: "MlflowClient", name: str) -> list[Move]:
    """The moves that were made, oldest first.

    An entry whose move was never made: the alias was found again where that entry had found it.
    """
    registered: Any = client.get_registered_model(name)
    written = entries(registered.tags)
    made: dict[int, Move] = {}
    for alias in {move.alias for move in written.values()}:
        held = registered.aliases.get(alias)
        found = None if held is None else int(held)
        for number, move in reversed(written.items()):
            if move.alias != alias:
                continue
            if found != move.previous:
                made[number] = move
            found = move.previous
    return [made[number] for number in sorted(made)]


def former_champions(moves: list[Move]) -> list[int]:
    """The champions before the present one, latest first; those rolled back are left out."""
    stack: list[int] = []
    for move in moves:
        if move.alias != CHAMPION or move.version is None:
            continue
        if move.how == "rollback":
            while stack and stack[-1] != move.version:
                stack.pop()
        if not stack or stack[-1] != move.version:
            stack.append(move.version)
    return stack[-2::-1]


def _same(written: Move, move: Move) -> bool:
    return (written.alias, written.previous, written.version, written.how) == (
        move.alias,
        move.previous,
        move.version,
        move.how,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
