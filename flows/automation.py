"""The automation that marks a run as crashed when its machine or its processes are gone.

    python -m flows.automation     # once per server; again does no harm

A run whose flow and worker are both killed stays `Running` for ever: nobody is left to say
otherwise. So the server itself expects a heartbeat (every 30 seconds, pyproject.toml) or a final
state within ten minutes of each heartbeat. Not sooner: a server that comes back hears from a living
run up to 30 seconds later, has until then been silent with it, and takes the place in the
deployment's limit from a run that it calls crashed, which ends that run. (The place of a dead run
is free again after five minutes, when nobody has renewed its lease.)

A run's last heartbeat may reach the server behind the run's end. Ten minutes later the run is to be
called crashed, which the server refuses, since it has ended: the event
`prefect.automation.action.failed` says so ("already in terminal state"), and nothing has changed.
"""

from datetime import timedelta
from typing import Any

import httpx
from prefect.automations import Automation, ChangeFlowRunState, EventTrigger, Posture
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import PrefectException
from prefect.settings import get_current_settings

NAME = "silent-runs-have-crashed"
HEARTBEAT = "prefect.flow-run.heartbeat"
FINAL = ("Completed", "Failed", "Cancelled", "Crashed")
SILENCE = timedelta(minutes=10)
"""Longer than a run bears the absence of its server: it tries to renew its lease three times, a
minute each, at least every 225 seconds."""


def silent_runs_have_crashed() -> Automation:
    """The automation, not yet on any server."""
    crashed: ActionTypes = ChangeFlowRunState(
        state=StateType.CRASHED,
        name="Crashed",
        message=f"No heartbeat for {SILENCE.seconds // 60} minutes: its processes are gone, or the "
        "server was. Run again: what is finished is reused.",
        force=False,
    )
    return Automation(
        name=NAME,
        description="A flow run that sends no heartbeat any more is marked as crashed.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            after={HEARTBEAT},
            expect={HEARTBEAT, *(f"prefect.flow-run.{state}" for state in FINAL)},
            for_each={"prefect.resource.id"},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            within=SILENCE,
            threshold=1,
        ),
        actions=[crashed],
    )


def ensure() -> str:
    """Creates or updates the automation on the server; returns `created`, `updated` or `is there`.

    One that was switched off stays off.
    """
    wanted = silent_runs_have_crashed()
    with get_client(sync_client=True) as client:
        found = client.read_automations_by_name(NAME)
    if not found:
        wanted.create()
        return "created"
    wanted.id, wanted.enabled = found[0].id, found[0].enabled
    if _definition(found[0]) == _definition(wanted):
        return "is there"
    wanted.update()
    return "updated"


def _definition(automation: AutomationCore) -> dict[str, Any]:
    """The automation without the fields that the server adds."""
    return automation.model_dump(
        include={
            "description": True,
            "trigger": set(EventTrigger.model_fields) - {"id"},
            "actions": True,
        },
    )


def main() -> None:
    """Prints what was done; if the server does not answer, or refuses, exits with one sentence."""
    try:
        print(f"automation {NAME}: {ensure()}")
    except (httpx.HTTPError, PrefectException) as error:
        raise SystemExit(
            f"the server at {get_current_settings().api.url} was asked for the automation {NAME}: "
            f"{str(error).splitlines()[0]}; start it with `prefect server start`, or name it by "
            "PREFECT_API_URL, and its password by PREFECT_API_AUTH_STRING"
        ) from None


if __name__ == "__main__":
    main()
