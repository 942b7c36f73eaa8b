"""What a run refuses before it works for hours: names, files and devices that are not there."""

from collections.abc import Collection, Mapping

from flows.params import RewardPipelineParams
from flows.pipeline import ORDER, Pipeline, checked_stage
from tasks.artifact import Artifact
from tasks.conversion.task import check_overrides, check_sources
from tasks.errors import DataError, ParamsError
from tasks.evaluation.task import benchmarks_found, check_decided, check_device, check_slices
from tasks.registration.address import check_store
from tasks.registration.usable import check_usable
from tasks.templating.template import template_source
from tasks.training.task import check_launch


def check_before_run(pipeline: Pipeline, until: str | None, force: Collection[str]) -> None:
    """Checks all that can be checked before any work, in the order of the stages.

    Raises:
        PipelineError: a stage, a layout, a file or a setting of the params cannot be used.
    """
    _check_stages(until, force)
    if includes_stage("evaluation", until):
        _check_evaluation(pipeline)
    if includes_stage("training", until):
        check_launch(pipeline.params.training)
        check_store(pipeline.params.registration, pipeline.root)
    check_params(pipeline.params, until)
    if until != "ingestion" and not pipeline.needs("model"):
        pipeline.step("model", {})  # refuses what is no model


def check_params(params: RewardPipelineParams, until: str | None = None) -> None:
    """Checks the layouts of the sources, and files that the params name beside the sources.

    Raises:
        ParamsError, TemplateError: a layout or a file cannot be used.
    """
    if until != "ingestion":
        check_sources(params.ingestion.sources)
    if includes_stage("conversion", until):
        check_overrides(params.conversion)
    if includes_stage("templating", until):
        template_source(params.templating)


def check_before_training(pipeline: Pipeline, artifacts: Mapping[str, Artifact]) -> None:
    """Checks that a model can be evaluated before it is trained: there are held-out pairs, one of
    them has a better side, their rows have the columns of `slice_by`, and the device can compute.

    Raises:
        DataError: every held-out pair was left out or is a tie, or none has a column of `slice_by`.
        ParamsError: the device of the evaluation cannot be used here.
    """
    before, left = artifacts["conversion"].report, artifacts["tokenization"].report
    if left["eval"] == 0:
        raise DataError(
            f"tokenization: none of the {before['eval']:,} held-out pairs is left, so the model "
            "could not be evaluated; raise tokenization.max_length or conversion.eval_fraction, "
            "or stop before the evaluation with --until training"
        )
    if not pipeline.store.place(pipeline.step("training", artifacts)).exists():
        check_decided(artifacts["tokenization"])
        check_device(pipeline.params.evaluation)
        check_slices(pipeline.params.evaluation, artifacts["conversion"], artifacts["ingestion"])


def check_before_first_build(pipeline: Pipeline, until: str | None) -> None:
    """Checks before a run's first build that its model can be registered.

    Raises:
        RegistrationError: MLflow's store cannot take it.
    """
    if includes_stage("registration", until):
        check_usable(pipeline.params.registration, pipeline.root)


def includes_stage(stage: str, until: str | None) -> bool:
    """Whether a run that stops after `until` includes this stage."""
    return until is None or ORDER.index(until) >= ORDER.index(stage)


def _check_stages(until: str | None, force: Collection[str]) -> None:
    """Refuses names that are no stages, and a forced stage that the run does not come to."""
    for stage in {*force} | ({until} if until else set()):
        checked_stage(stage)
    if until and (behind := [s for s in force if ORDER.index(s) > ORDER.index(until)]):
        raise ParamsError(
            f"--force {behind[0]} has no effect, since --until {until} stops before it; leave out "
            "one of them"
        )


def _check_evaluation(pipeline: Pipeline) -> None:
    """Refuses a run that would evaluate on nothing, or on absent files."""
    benchmarks_found(pipeline.params.evaluation)
    uses = {source.use for source in pipeline.params.ingestion.sources}
    drawn = "both" in uses and pipeline.params.conversion.eval_fraction > 0
    if not drawn and "eval" not in uses:
        raise ParamsError(
            "no pair would be held out to evaluate the model on: conversion.eval_fraction is 0, or "
            "no source has `use: both` (the default); raise it, add a source with `use: eval`, or "
            "stop before the evaluation with --until training"
        )
