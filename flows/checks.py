"""What a run refuses before it works for hours: names, files and devices that are not there."""

from collections.abc import Collection, Mapping

from flows.params import RewardPipelineParams
from flows.pipeline import ORDER, Pipeline, checked_stage
from tasks.artifact import Artifact
from tasks.conversion.task import check_overrides, check_sources
from tasks.errors import DataError, ParamsError
from tasks.evaluation.task import benchmarks_found, check_device, check_slices
from tasks.registration.address import check_store
from tasks.registration.usable import check_usable
from tasks.templating.template import template_source
from tasks.training.task import check_launch


def check_beforehand(pipeline: Pipeline, until: str | None, force: Collection[str]) -> None:
    """Before any work, in the order in which a run would come to it.

    Raises:
        PipelineError: a stage, a layout, a file or a setting of the params cannot be used.
    """
    _check_stages(until, force)
    if comes_to("evaluation", until):
        _check_evaluation(pipeline)
    if comes_to("training", until):
        check_launch(pipeline.params.training)
        check_store(pipeline.params.registration, pipeline.root)
    check_given(pipeline.params, until)
    if until != "ingestion" and not pipeline.needs("model"):
        pipeline.step("model", {})  # refuses what is no model


def check_given(params: RewardPipelineParams, until: str | None = None) -> None:
    """What the params say of layouts, and of files beside the sources.

    Raises:
        ParamsError, TemplateError: as above.
    """
    if until != "ingestion":
        check_sources(params.ingestion.sources)
    if comes_to("conversion", until):
        check_overrides(params.conversion)
    if comes_to("templating", until):
        template_source(params.templating)


def check_before_training(pipeline: Pipeline, artifacts: Mapping[str, Artifact]) -> None:
    """Before any training that is to be evaluated: there are pairs, their rows have the columns
    that are asked for, and the device can compute.

    Raises:
        DataError: every held-out pair was left out, or none has a column of `slice_by`.
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
        check_device(pipeline.params.evaluation)
        check_slices(pipeline.params.evaluation, artifacts["conversion"], artifacts["ingestion"])


def check_before_work(pipeline: Pipeline, until: str | None) -> None:
    """Before the first stage that is not there yet is built: what it leads to can be registered.

    Raises:
        RegistrationError: MLflow's store cannot take it.
    """
    if comes_to("registration", until):
        check_usable(pipeline.params.registration, pipeline.root)


def comes_to(stage: str, until: str | None) -> bool:
    """Whether a run that stops behind `until` has this stage."""
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
