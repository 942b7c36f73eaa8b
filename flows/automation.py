"""The automation that marks a run as crashed when its machine or its processes are gone.

    python -m flows.automation     # once per server; again does no harm

A run whose flow and worker are both killed stays `Running` for ever: nobody is left to say
otherwise, and with a concurrency limit of one no other run starts. So the server itself expects a
heartbeat (every 30 seconds, pyproject.toml) or a final state within 90 seconds of each heartbeat.
"""

from datetime import timedelta

from prefect.automations import Automation, ChangeFlowRunState, EventTrigger, Posture
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes

NAME = "silent-runs-have-crashed"
HEARTBEAT = "prefect.flow-run.heartbeat"
FINAL = ("Completed", "Failed", "Cancelled", "Crashed")
SILENCE = timedelta(seconds=90)


def silent_runs_have_crashed() -> Automation:
    """The automation, not yet on any server."""
    crashed: ActionTypes = ChangeFlowRunState(
        state=StateType.CRASHED,
        name="Crashed",
        message=f"No heartbeat for {SILENCE.seconds} seconds: its processes are gone. "
        "Run again: what is finished is reused.",
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


def ensure() -> bool:
    """Whether the automation had to be created; one of that name is left as it is."""
    with get_client(sync_client=True) as client:
        if client.read_automations_by_name(NAME):
            return False
    silent_runs_have_crashed().create()
    return True


if __name__ == "__main__":
    print(f"automation {NAME}: {'created' if ensure() else 'is there'}")
