"""One run of the pipeline in this process, remembered as the newest.

What a registered version was made from stays beyond the runs: later champions are compared with it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from flows.pipeline import ORDER, Pipeline, checked_stage, run_steps
from flows.summary import summary_of
from tasks.artifact import Artifact, Step, Store
from tasks.artifact.collection import in_use
from tasks.artifact.refs import REGISTERING, RUN, UNFINISHED, VERSION, keep, release, run_name
from tasks.conversion.task import check_sources
from tasks.errors import DataError, ParamsError
from tasks.evaluation.task import benchmarks_found
from tasks.ingestion.redaction import redacted
from tasks.registration.address import check_store
from tasks.registration.registry import current_alias
from tasks.training.task import check_launch

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
    _check_stages(until, force)
    if _comes_to("evaluation", until):
        _check_evaluation(pipeline)
    if _comes_to("training", until):
        check_launch(pipeline.params.training)
        check_store(pipeline.params.registration, pipeline.root)
    if until != "ingestion":
        check_sources(pipeline.params.ingestion.sources)
        if not pipeline.needs("model"):
            pipeline.step("model", {})  # refuses, before any work, what is no model
    store = pipeline.store

    def ask_store(step: Step) -> Artifact:
        return store.obtain(step, force=step.stage in force)

    address = pipeline.params.registration.tracking_uri
    progress = _Progress(store, obtain or ask_store, address and redacted(address))
    artifacts = progress.artifacts
    with in_use(store):
        for stage, artifact in run_steps(pipeline, progress, until):
            progress.add(stage, artifact)
            if stage == "tokenization" and _comes_to("evaluation", until):
                _check_held_out(artifacts)
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
    artifacts: dict[str, Artifact] = field(default_factory=dict[str, Artifact])
    name: str = ""
    kept: int = 0

    def __call__(self, step: Step) -> Artifact:
        """The step's artifact."""
        if not self.store.place(step).exists():
            self._keep()
        if step.stage == "registration":  # whose version may come to stand, and this process die
            told = {"training": self.artifacts["training"].key, "tracking_uri": self.registry}
            keep(self.store, REGISTERING, run_name(self.store), self.artifacts.values(), told)
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


def _check_stages(until: str | None, force: Collection[str]) -> None:
    """Refuses names that are no stages, and a forced stage that the run does not come to."""
    for stage in {*force} | ({until} if until else set()):
        checked_stage(stage)
    if until and (behind := [s for s in force if ORDER.index(s) > ORDER.index(until)]):
        raise ParamsError(
            f"--force {behind[0]} has no effect, since --until {until} stops before it; leave out "
            "one of them"
        )


def _comes_to(stage: str, until: str | None) -> bool:
    return until is None or ORDER.index(until) >= ORDER.index(stage)


def _check_evaluation(pipeline: Pipeline) -> None:
    """Refuses, before any work, a run that would evaluate on nothing, or on absent files."""
    benchmarks_found(pipeline.params.evaluation)
    if pipeline.params.conversion.eval_fraction == 0:
        raise ParamsError(
            "conversion.eval_fraction is 0, so no pair is held out to evaluate the model on; "
            "raise it, or stop before the evaluation with --until training"
        )


def _check_held_out(artifacts: Mapping[str, Artifact]) -> None:
    """Refuses, before any training, to go on where every held-out pair was left out."""
    before, left = artifacts["conversion"].report, artifacts["tokenization"].report
    if left["eval"] == 0:
        raise DataError(
            f"tokenization: none of the {before['eval']:,} held-out pairs is left, so the model "
            "could not be evaluated; raise tokenization.max_length or conversion.eval_fraction, "
            "or stop before the evaluation with --until training"
        )
