"""The aliases of a registered model while this process holds its lock: the only way to move them.

A move is written down first and made then, and read back: an attempt that is cut short in between
finds its own entry and goes on. An entry whose move was never made is left out: the next one
starts where it started; one whose move the registry refuses is taken back.
"""

import getpass
import json
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tasks.errors import RegistrationError
from tasks.registration.aliases.history import MOVE, How, Move, entries
from tasks.registration.registry import CHALLENGER, CHAMPION
from tasks.registration.tags import SEQUENCE

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

NEWEST_CHAMPION = "champion_mark"
"""Tag of a registered model: what `newest_champion` gives, as "12.5"."""

MOST_WHY = 1000
"""Characters of a reason that the history keeps: MLflow's tables have room for 5,000 in a tag."""


@dataclass(frozen=True)
class Reason:
    """What moves an alias, and why; both stay in the history."""

    how: How
    why: str


@dataclass(frozen=True)
class LockedAliases:
    """The aliases of one registered model; `registry_lock` gives them."""

    client: "MlflowClient"
    model_name: str
    check_lock: Callable[[], None]
    """Raises when the lock was lost meanwhile."""

    def holder(self, alias: str) -> int | None:
        """The version that has the alias."""
        version = self.client.get_registered_model(self.model_name).aliases.get(alias)
        return None if version is None else int(version)

    def version(self, number: int) -> "ModelVersion":
        """The version of this number."""
        return self.client.get_model_version(self.model_name, str(number))

    def move(self, alias: str, version: int | None, reason: Reason) -> None:
        """Gives the alias to the version, or takes it away (None), and writes that down once.

        Raises:
            RegistrationError: the registry refuses the move, or does not hold what was set.
        """
        previous = self.holder(alias)
        if previous == version:
            return
        written = entries(self.client.get_registered_model(self.model_name).tags)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        move = Move(alias, previous, version, reason.how, reason.why[:MOST_WHY], actor(), now)
        number = max(written, default=0)
        if written.get(number) != move:
            number += 1
            entry = json.dumps(asdict(move), ensure_ascii=False)
            self.client.set_registered_model_tag(self.model_name, f"{MOVE}{number:05d}", entry)
        self.check_lock()
        self._make(move, number)
        held = self.holder(alias)
        if held != version:
            raise RegistrationError(
                f"alias {alias!r} of {self.model_name!r} was set to version {version}, but the "
                f"registry holds {held}: somebody else moved it; run again"
            )

    def _make(self, move: Move, number: int) -> None:
        """Makes the move of entry `number`, which is taken back where the registry refuses it."""
        from mlflow.exceptions import MlflowException

        client, name = self.client, self.model_name
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

    def make_champion(self, version: "ModelVersion", reason: Reason) -> None:
        """Moves `champion` to the version; it is no challenger any more."""
        number, order = int(version.version), run_order(version)
        if order > self.newest_champion():
            mark = "{}.{}".format(*order)
            self.client.set_registered_model_tag(self.model_name, NEWEST_CHAMPION, mark)
        self.move(CHAMPION, number, reason)
        if self.holder(CHALLENGER) == number:
            self.move(CHALLENGER, None, replace(reason, why=f"champion now: {reason.why}"))

    def newest_champion(self) -> tuple[int, int]:
        """The `run_order` of the newest run that was ever champion."""
        tags = self.client.get_registered_model(self.model_name).tags
        sequence, _, number = tags.get(NEWEST_CHAMPION, "0.0").partition(".")
        return int(sequence), int(number)


def run_order(version: "ModelVersion") -> tuple[int, int]:
    """The version's place in the order in which runs began: its run's, then its own number."""
    return int(version.tags.get(SEQUENCE, 0)), int(version.version)


def actor() -> str:
    """Who moves aliases from here: user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "unnamed"
    return f"{user}@{socket.gethostname()}"
