"""One run of the pipeline in this process, remembered as the newest.

What a registered version was made from stays beyond the runs: later champions are compared with it.
"""

from collections.abc import Callable, Collection
from typing import Any

from flows.pipeline import Pipeline, checked_stage, run_steps
from flows.summary import summary_of
from tasks.artifact import Artifact, Step
from tasks.artifact.collection import keep, run_name

Obtain = Callable[[Step], Artifact]


def run_pipeline(
    pipeline: Pipeline,
    *,
    until: str | None = None,
    force: Collection[str] = (),
    obtain: Obtain | None = None,
) -> dict[str, Any]:
    """The summary of a finished run (`flows.summary.summary_of`).

    `obtain` gives a step's artifact; without it the store is asked directly.

    Raises:
        PipelineError: a stage failed; what is finished stays for the next run.
    """
    for stage in {*force} | ({until} if until else set()):
        checked_stage(stage)
    store = pipeline.store

    def ask_store(step: Step) -> Artifact:
        return store.obtain(step, force=step.stage in force)

    artifacts = dict(run_steps(pipeline, obtain or ask_store, until))
    summary = summary_of(artifacts)
    keep(store, "run", run_name(), artifacts.values(), summary)
    if registered := summary["registered"]:
        version = f"{registered['name']}-{registered['version']}"
        keep(store, "version", version, artifacts.values(), registered)
    return summary
