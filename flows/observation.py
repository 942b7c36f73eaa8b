"""What a run shows in Prefect beside its states: artifacts of plan, stages and result, and logs.

If the server cannot take one of them, the run logs that and goes on.
"""

import logging
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import httpx
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.exceptions import PrefectException
from prefect.logging.handlers import APILogHandler
from prefect.runtime import flow_run, task_run

from flows.markdown import literal
from flows.pages import headline, plan_rows, stage_headline, stage_page, summary_page
from flows.plan import Planned
from tasks.artifact import Artifact
from tasks.errors import PipelineError

logger = logging.getLogger(__name__)

PREFIX = "reward-pipeline"
"""Artifact keys are `reward-pipeline-<what>`; equal keys form one history in the UI."""
UPDATE_SECONDS = 2.0
REST_PER_UPDATE = 10.0
"""Pause after an update, as a multiple of its duration: training waits for updates, and one takes a
minute if the server is away."""


def show_plan(planned: Iterable[Planned]) -> None:
    """The plan as a table."""
    with unless_refused("the plan"):
        create_table_artifact(
            plan_rows(planned),
            key=f"{PREFIX}-plan",
            description="HIT: reused. RUN: built, for this reason. DEPENDS: known once the stages "
            "before it are built.",
        )


def show_stage(artifact: Artifact) -> None:
    """One stage's page."""
    with unless_refused(f"the page of {artifact.stage}"):
        create_markdown_artifact(
            stage_page(artifact),
            key=f"{PREFIX}-{artifact.stage}",
            description=literal(stage_headline(artifact)) or artifact.key,
        )


def show_summary(summary: Mapping[str, Any]) -> None:
    """The finished run on one page."""
    with unless_refused("the summary"):
        create_markdown_artifact(
            summary_page(summary), key=f"{PREFIX}-summary", description=literal(headline(summary))
        )


@dataclass
class TrainingProgress:
    """A progress artifact that follows the metrics records.

    At most one update in two seconds, and a tenth of the time.
    """

    artifact: UUID | None = None
    percent: float = 0.0
    due: float = 0.0
    """When the next update may be, on the monotonic clock."""

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Takes one record: `step`, `max_steps` and metrics."""
        step, steps = int(record["step"]), int(record["max_steps"])
        if steps <= 0 or (step < steps and time.monotonic() < self.due):
            return
        names = [name for name in ("loss", "accuracy", "eval_accuracy") if name in record]
        numbers = ", ".join(f"{name.replace('_', ' ')} {record[name]:.3g}" for name in names)
        description = f"step {step} of {steps}" + (f": {numbers}" if numbers else "")
        self._show(round(min(100.0, 100.0 * step / steps), 1), description)

    def finish(self) -> None:
        """Training is over: the last record may stand some steps before the end."""
        if self.artifact is not None and self.percent < 100.0:
            self._show(100.0, "finished")

    def _show(self, percent: float, description: str) -> None:
        start = time.monotonic()
        with unless_refused("the progress"):
            if self.artifact is None:
                key = f"{PREFIX}-training-progress"
                created = create_progress_artifact(percent, key, description)
                self.artifact = cast(UUID, created)  # a coroutine only within an event loop
            else:
                update_progress_artifact(self.artifact, percent, description)
        self.percent, end = percent, time.monotonic()
        self.due = end + max(UPDATE_SECONDS, REST_PER_UPDATE * (end - start))


@contextmanager
def logs_in_run(*names: str) -> Generator[None, None, None]:
    """Records of these loggers, from any thread, also go to the log of the current run."""
    handler = _RunLogHandler(flow_run.id, task_run.id)
    loggers = [logging.getLogger(name) for name in names]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(min(each.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.removeHandler(handler)
            each.setLevel(level)


class _RunLogHandler(APILogHandler):
    """Sends records to one run's log; Prefect's own finds the run in the main thread alone."""

    def __init__(self, flow_run_id: str | None, task_run_id: str | None) -> None:
        super().__init__()
        self.flow_run_id = flow_run_id
        self.task_run_id = task_run_id

    def emit(self, record: logging.LogRecord) -> None:
        record.flow_run_id = self.flow_run_id
        record.task_run_id = self.task_run_id
        super().emit(record)


class PipelineErrorFilter(logging.Filter):
    """Drops the traceback that Prefect's engine logs when a run ends in one of our errors: its
    state has the message already. Other exceptions keep theirs."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            record.exc_info = None  # else "NoneType: None" is logged
        return not isinstance(error, PipelineError)


_PIPELINE_ERROR_FILTER = PipelineErrorFilter()


def without_tracebacks() -> None:
    """Removes the tracebacks of our own errors from Prefect's logs."""
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).addFilter(_PIPELINE_ERROR_FILTER)


@contextmanager
def unless_refused(what: str) -> Generator[None, None, None]:
    """Logs errors of the server as warnings: they cost a page of the run, never the run."""
    try:
        yield
    except (httpx.HTTPError, PrefectException, OSError) as error:
        logger.warning("%s could not be shown in Prefect: %s", what, error)
