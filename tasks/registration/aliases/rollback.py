"""The champion rolled back to the one before, once, even if asked twice."""

from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import RegistrationError
from tasks.registration.aliases.by_hand import (
    Moved,
    locked_model,
    move_by_hand,
    proof_of,
    say,
    version_of,
)
from tasks.registration.aliases.history import Move, former_champions, history
from tasks.registration.aliases.locked_aliases import LockedAliases, Reason
from tasks.registration.params import RegistrationParams
from tasks.registration.registry import CHAMPION
from tasks.registration.tags import ROLLED_BACK

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


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
    with locked_model(params, root) as aliases:
        present = aliases.holder(CHAMPION)
        if present is None:
            raise RegistrationError(f"{name!r} has no champion to roll back; promote a version")
        moves = history(aliases.client, name)
        last = next((move for move in reversed(moves) if move.alias == CHAMPION), None)
        stands = last is not None and (last.how, last.version) == ("rollback", present)
        if last and stands and from_version in (None, last.previous):
            return _finished(aliases, last, present)
        if from_version not in (None, present):
            raise RegistrationError(
                f"the champion of {name!r} is version {present}, not {from_version}: somebody "
                f"moved it (reward-pipeline alias-history {name}); name the one to go back from"
            )
        found = reserve(aliases, present)
        proof = proof_of(aliases.client, found, why)
        # Before the move: cut short in between, the same command goes on from here.
        aliases.client.set_model_version_tag(name, str(present), ROLLED_BACK, why[:500])
        return move_by_hand(aliases, found, CHAMPION, Reason("rollback", why), proof)


def reserve(aliases: LockedAliases, present: int | None) -> "ModelVersion":
    """The latest champion before the present one that could take its place.

    Raises:
        RegistrationError: there is none; says why others were passed over.
    """
    passed_over: list[str] = []
    for number in former_champions(history(aliases.client, aliases.model_name)):
        try:
            found = version_of(aliases, number)
        except RegistrationError as error:
            passed_over.append(str(error))
            continue
        if number != present and ROLLED_BACK not in found.tags:
            return found
    raise RegistrationError(
        f"{aliases.model_name!r} had no champion before version {present} that could take its place"
        + "".join(f"; {reason}" for reason in passed_over)
        + "; promote a version by its number"
    )


def _finished(aliases: LockedAliases, last: Move, present: int) -> Moved:
    """A rollback that was made; what a cut short attempt did not come to is done now."""
    found, reason = version_of(aliases, present), Reason(last.how, last.why)
    proof_of(aliases.client, found, last.why)
    aliases.make_champion(found, reason)
    say(aliases.client, found, CHAMPION, reason, last.who)
    told = f"rolled back by {last.who} at {last.when}: {last.why}"
    return Moved(aliases.model_name, CHAMPION, last.previous, present, told, already=True)
