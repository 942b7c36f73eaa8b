"""The Prefect flow: the stages in their order, each in a task named after it and its key.

What is cached is decided by the store alone, not by Prefect: a hit ends in the state `Cached`, a
built stage in `Completed`, both with the reason as message; a failure ends in its one sentence.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.console import usable_root
from flows.crashes import end_its_tasks, end_tasks_of_crashed_runs
from flows.observation import (
    TrainingProgress,
    logs_in_run,
    show_plan,
    show_stage,
    show_summary,
    without_tracebacks,
)
from flows.pages import headline, state_message
from flows.params import load, refuse_secrets
from flows.pipeline import ORDER, Pipeline, checked_stage
from flows.plan import Planned, plan
from flows.run import run_pipeline
from tasks.artifact import Artifact, Step, Store
from tasks.errors import PipelineError

FLOW = "reward-pipeline"
Stage = Literal[
    "ingestion",
    "model",
    "conversion",
    "templating",
    "tokenization",
    "training",
    "evaluation",
    "registration",
]
"""The names in `ORDER`, written out: the form of a run in Prefect's UI offers them."""


@flow(name=FLOW, persist_result=False, on_crashed=[end_its_tasks])
def reward_pipeline(
    params: str = "params/quickstart.yaml",
    overrides: list[str] | None = None,
    root: str = ".",
    until: Stage | None = None,
    force: list[Stage] | None = None,
) -> State[dict[str, Any]]:
    """Raw preference data to a registered reward model, in cached, resumable stages.

    Called as a function it returns the summary (`flows.summary.summary_of`), or raises what went
    wrong; that is what Prefect makes of the returned state.

    Args:
        params: The params file (YAML), relative to the checkout.
        overrides: dotted.key=value, as many as needed.
        root: The directory of data/ and mlruns/.
        until: Stop after this stage.
        force: Build these stages again.
    """
    without_tracebacks()
    end_tasks_of_crashed_runs(FLOW)
    progress = TrainingProgress()

    def obtain(step: Step) -> Artifact:
        artifact = obtain_in_task(pipeline.store, force or (), step)
        progress.finish()
        return artifact

    try:
        refuse_secrets((params, str(root), *(overrides or ())))
        pipeline = Pipeline(
            load(params, overrides or ()),
            usable_root(Path(root)),
            on_metrics=progress,
            origin={"file": params, "overrides": overrides or []},
        )
        show_plan(planned(pipeline, until, force or ()))
        summary = run_pipeline(pipeline, until=until, force=force or (), obtain=obtain)
    except PipelineError as error:
        return Failed(message=str(error), data=error)
    show_summary(summary)
    return Completed(message=headline(summary), data=summary)


def planned(pipeline: Pipeline, until: str | None, force: Collection[str]) -> list[Planned]:
    """What this run is going to do, as far as it can be known before it does it."""
    last = ORDER.index(checked_stage(until)) if until else len(ORDER)
    return [
        replace(line, verdict="RUN", causes=(f"FORCED {line.stage}",))
        if line.verdict == "HIT" and line.stage in force
        else line
        for line in plan(pipeline)[: last + 1]
    ]


def obtain_in_task(store: Store, force: Collection[str], step: Step) -> Artifact:
    """The step's artifact, obtained within a task run `<stage>-<key>` of the current flow run.

    The step stays in a closure, because Prefect searches through the arguments of a task. The task
    is called, not submitted: so a cancellation reaches a training child at once.

    Raises:
        PipelineError: what the build raised.
    """

    @task(name=step.stage, task_run_name=step.name, cache_policy=NO_CACHE, persist_result=False)
    def stage() -> Any:
        with logs_in_run("tasks", "flows"):
            try:
                artifact = store.obtain(step, force=step.stage in force)
            except PipelineError as error:
                return Failed(message=str(error), data=error)
            show_stage(artifact)
        name = "Cached" if artifact.cached else "Completed"
        return Completed(name=name, message=state_message(artifact), data=artifact)

    return stage(return_state=True).result()
