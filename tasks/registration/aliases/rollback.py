"""The champion rolled back to the one before, once, even if asked twice."""

from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import RegistrationError
from tasks.registration.aliases.decision import ROLLED_BACK
from tasks.registration.aliases.history import (
    Move,
    StillOurs,
    former_champions,
    history,
    holder,
    make_champion,
)
from tasks.registration.aliases.moving import (
    Moved,
    move_by_hand,
    proof_of,
    registry_of,
    say,
    version_of,
)
from tasks.registration.params import RegistrationParams
from tasks.registration.registry import CHAMPION

if TYPE_CHECKING:
    from mlflow import MlflowClient


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
    with registry_of(params, root) as (client, still_ours):
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
            found = version_of(client, name, number)
        except RegistrationError as error:
            passed_over.append(str(error))
            continue
        if number == present or ROLLED_BACK in found.tags:
            continue
        proof = proof_of(client, found, why)
        # Before the move: cut short in between, the same command goes on from here.
        client.set_model_version_tag(name, str(present), ROLLED_BACK, why[:500])
        return move_by_hand(client, found, CHAMPION, "rollback", why, proof, still_ours)
    raise RegistrationError(
        f"{name!r} had no champion before version {present} that could take its place"
        + "".join(f"; {reason}" for reason in passed_over)
        + "; promote a version by its number"
    )


def _finished(
    client: "MlflowClient", name: str, last: Move, present: int, still_ours: StillOurs
) -> Moved:
    """A rollback that was made; what a cut short attempt did not come to is done now."""
    found = version_of(client, name, present)
    proof_of(client, found, last.why)
    make_champion(client, found, last.how, last.why, still_ours)
    say(client, found, CHAMPION, last.how, last.who, last.why)
    told = f"rolled back by {last.who} at {last.when}: {last.why}"
    return Moved(name, CHAMPION, last.previous, present, told, already=True)
