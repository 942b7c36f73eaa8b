"""Aliases moved by hand to a version that is named, each with its reason; and the moves so far."""

from pathlib import Path

from tasks.errors import RegistrationError
from tasks.registration.aliases.decision import OUTCOME, REASON, ROLLED_BACK
from tasks.registration.aliases.gate import REJECTED
from tasks.registration.aliases.history import Move, check_alias, history
from tasks.registration.aliases.moving import (
    Moved,
    check_model_exists,
    move_by_hand,
    proof_of,
    registry_of,
    version_of,
)
from tasks.registration.params import RegistrationParams
from tasks.registration.registry import CHAMPION
from tasks.registration.store import client_of_existing, refusals_told


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
    with registry_of(params, root) as (client, still_ours):
        found = version_of(client, params.model_name, version)
        if found.tags.get(OUTCOME) == REJECTED and not despite_gate:
            raise RegistrationError(
                f"version {version} of {found.name!r} was rejected by the gate: "
                f"{found.tags.get(REASON, '')}; promote it with --despite-gate if you know better"
            )
        proof = proof_of(client, found, why)
        moved = move_by_hand(client, found, alias, "promote", why, proof, still_ours)
        if ROLLED_BACK in found.tags:
            client.delete_model_version_tag(found.name, found.version, ROLLED_BACK)
    return moved


def moves(params: RegistrationParams, root: Path) -> list[Move]:
    """The moves of the model's aliases, oldest first."""
    with refusals_told(params, root):
        client = client_of_existing(params, root)
        check_model_exists(client, params.model_name)
        return history(client, params.model_name)
