"""Aliases moved by hand to a version that is named, each with its reason; and the moves so far."""

import re
from pathlib import Path

from tasks.errors import ParamsError, RegistrationError, shown
from tasks.registration.aliases.by_hand import (
    Moved,
    client_of_model,
    locked_model,
    move_by_hand,
    proof_of,
    version_of,
)
from tasks.registration.aliases.gate import REJECTED
from tasks.registration.aliases.history import Move, history
from tasks.registration.aliases.locked_aliases import Reason
from tasks.registration.params import RegistrationParams
from tasks.registration.registry import CHAMPION
from tasks.registration.store import refusals_told
from tasks.registration.tags import DECISION, OUTCOME, ROLLED_BACK

ALIAS = re.compile(r"[\w-]{1,255}")
RESERVED_ALIAS = re.compile(r"(?i)latest|v\d+")
"""What MLflow takes as an alias, and what of it means a version already."""


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
    with locked_model(params, root) as aliases:
        found = version_of(aliases, version)
        if found.tags.get(OUTCOME) == REJECTED and not despite_gate:
            raise RegistrationError(
                f"version {version} of {found.name!r} was rejected by the gate: "
                f"{found.tags.get(DECISION, '')}; promote it with --despite-gate if you know better"
            )
        proof = proof_of(aliases.client, found, why)
        moved = move_by_hand(aliases, found, alias, Reason("promote", why), proof)
        if ROLLED_BACK in found.tags:
            aliases.client.delete_model_version_tag(found.name, found.version, ROLLED_BACK)
    return moved


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


def moves(params: RegistrationParams, root: Path) -> list[Move]:
    """The moves of the model's aliases, oldest first."""
    with refusals_told(params, root):
        return history(client_of_model(params, root), params.model_name)
