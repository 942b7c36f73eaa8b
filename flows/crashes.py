"""What a flow run whose process was killed leaves in Prefect: tasks that nobody ends.

The worker calls it; where the worker is gone too, the automation ends the flow run alone
(`flows/automation.py`).
"""

from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Crashed


def end_its_tasks(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001
    """The tasks of a crashed flow run that still are `Running` crash with it, for its reason."""
    running = TaskRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING", "PENDING"]}}})
    its = FlowRunFilter.model_validate({"id": {"any_": [flow_run.id]}})
    with get_client(sync_client=True) as client:
        for task_run in client.read_task_runs(flow_run_filter=its, task_run_filter=running):
            client.set_task_run_state(task_run.id, Crashed(message=state.message), force=True)
