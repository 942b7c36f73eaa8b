"""What a flow run whose process was killed leaves in Prefect: tasks that nobody ends.

    its worker lives      it calls `end_its_tasks` at once
    its worker is gone    the automation ends the flow run alone (`flows/automation.py`); the next
                          run calls `end_tasks_of_crashed_runs`

Either way they end as `Crashed`.
"""

from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Crashed

from flows.observation import unless_refused

_UNENDED = TaskRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING", "PENDING"]}}})


def end_its_tasks(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001
    """The tasks of a crashed flow run that still are `Running` crash with it, for its reason."""
    its = FlowRunFilter.model_validate({"id": {"any_": [flow_run.id]}})
    _crash(state.message, flow_run_filter=its)


def end_tasks_of_crashed_runs(flow_name: str) -> None:
    """The tasks of the flow's crashed runs that still are `Running` crash, too."""
    flow = FlowFilter.model_validate({"name": {"any_": [flow_name]}})
    crashed = FlowRunFilter.model_validate({"state": {"type": {"any_": ["CRASHED"]}}})
    with unless_refused("the tasks of crashed runs"):
        _crash("its flow run has crashed", flow_filter=flow, flow_run_filter=crashed)


def _crash(message: str | None, **of_runs: Any) -> None:
    """The tasks of the flow runs that pass these filters, and have not ended, crash."""
    with get_client(sync_client=True) as client:
        for task_run in client.read_task_runs(**of_runs, task_run_filter=_UNENDED):
            client.set_task_run_state(task_run.id, Crashed(message=message), force=True)
