"""One run of the pipeline in this process, remembered as the newest.

What a registered version was made from stays beyond the runs: later champions are compared with it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flows.checks import (
    check_before_first_build,
    check_before_run,
    check_before_training,
    includes_stage,
)
from flows.pipeline import Pipeline, run_steps
from flows.summary import summary_of
from tasks.artifact import Artifact, Step, Store
from tasks.artifact.collection import in_use
from tasks.artifact.refs import REGISTERING, RUN, UNFINISHED, VERSION, keep, release, run_name
from tasks.ingestion.redaction import redacted
from tasks.registration.registry import current_alias

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
    check_before_run(pipeline, until, force)
    store = pipeline.store

    def ask_store(step: Step) -> Artifact:
        return store.obtain(step, force=step.stage in force)

    address = pipeline.params.registration.tracking_uri
    before_work = partial(check_before_first_build, pipeline, until)
    known = address and redacted(address)
    progress = _Progress(store, obtain or ask_store, known, before_work, force)
    artifacts = progress.artifacts
    with in_use(store):
        for stage, artifact in run_steps(pipeline, progress, until):
            progress.add(stage, artifact)
            if stage == "tokenization" and includes_stage("evaluation", until):
                check_before_training(pipeline, artifacts)
        summary = summary_of(artifacts)
        if registered := summary["registered"]:  # `promote` may have moved it since
            registered["alias"] = current_alias(registered, address, pipeline.root)
            run_id = str(registered["run_id"])  # two registries may have the same name and number
            version = f"{registered['name']}-{registered['version']}-{run_id[:8]}"
            keep(store, VERSION, version, artifacts.values(), registered)
        keep(store, RUN, run_name(store), artifacts.values(), summary)
        release(store, artifacts.values())
    return summary


@dataclass
class _Progress:
    """Obtains a run's artifacts; they are kept from the next build on, should the run not come to
    its end: what takes hours is not collected because what came behind it failed."""

    store: Store
    obtain: Obtain
    registry: str | None
    """Its address, as params have it, without a secret."""
    before_work: Callable[[], None]
    """Called before anything is built, unless it is only found to be damaged."""
    force: Collection[str]
    artifacts: dict[str, Artifact] = field(default_factory=dict[str, Artifact])
    name: str = ""
    kept: int = 0
    working: bool = False

    def __call__(self, step: Step) -> Artifact:
        """The step's artifact."""
        absent = not self.store.place(step).exists()
        if (absent or step.stage in self.force) and not self.working:
            self.before_work()
            self.working = True
        if absent:
            self._keep()
        if step.stage == "registration":  # the process may die after the version is made
            facts = {"training": self.artifacts["training"].key, "tracking_uri": self.registry}
            keep(self.store, REGISTERING, run_name(self.store), self.artifacts.values(), facts)
        return self.obtain(step)

    def add(self, stage: str, artifact: Artifact) -> None:
        """Takes up what was obtained."""
        self.artifacts[stage] = artifact
        if not artifact.cached:
            self._keep()

    def _keep(self) -> None:
        if len(self.artifacts) > self.kept:
            self.kept = len(self.artifacts)
            self.name = self.name or run_name(self.store)
            keep(self.store, UNFINISHED, self.name, self.artifacts.values())
