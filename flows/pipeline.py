"""The order of the stages, and what each takes from those before it.

    ingestion ─┬─> conversion ─> templating ─> tokenization ─> training ─> evaluation ─> registr.
               └─> model ───────────┴──────────────┴──────────────┘

Nothing here knows Prefect: the command line walks the steps directly, the flow walks them through
tasks of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flows.params import RewardPipelineParams
from tasks.artifact import Artifact, Step, Store, Workspace
from tasks.conversion import task as conversion
from tasks.errors import Interrupted, ParamsError
from tasks.evaluation import task as evaluation
from tasks.ingestion import task as ingestion
from tasks.ingestion.redaction import redacted_value
from tasks.model import task as model
from tasks.registration import task as registration
from tasks.registration.metrics_sink import MetricsSink
from tasks.templating import task as templating
from tasks.tokenization import task as tokenization
from tasks.training import task as training

Artifacts = Mapping[str, Artifact]
MetricsCallback = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Pipeline:
    """One params file on one root directory (which holds `data/` and `mlruns/`)."""

    params: RewardPipelineParams
    root: Path
    on_metrics: MetricsCallback | None = None
    """Called with every metrics record during training."""
    origin: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Where the params came from: file and overrides; for the registry's lineage."""

    @property
    def store(self) -> Store:
        """The store of artifacts below the root."""
        file = self.origin.get("file")
        return Store(self.root / "data", str(Path(file).resolve()) if file else None)

    def needs(self, stage: str) -> tuple[str, ...]:
        """The stages whose artifacts it needs; a model from a directory needs none."""
        alone = stage == "model" and self.params.model.path is not None
        return () if alone else NEEDS[stage]

    def step(self, stage: str, done: Artifacts) -> Step:
        """The stage's step, once the artifacts that it `needs` are there."""
        return STEPS[stage](self, done)


def _ingestion(p: Pipeline, _: Artifacts) -> Step:
    return ingestion.step(p.params.ingestion)


def _model(p: Pipeline, done: Artifacts) -> Step:
    return model.step(p.params.model, done.get("ingestion"))


def _conversion(p: Pipeline, done: Artifacts) -> Step:
    return conversion.step(p.params.conversion, p.params.ingestion.sources, done["ingestion"])


def _templating(p: Pipeline, done: Artifacts) -> Step:
    base = model.base_model(done["model"])
    return templating.step(p.params.templating, done["conversion"], base, done["model"])


def _tokenization(p: Pipeline, done: Artifacts) -> Step:
    base = model.base_model(done["model"])
    return tokenization.step(p.params.tokenization, done["templating"], base, done["model"])


def _training(p: Pipeline, done: Artifacts) -> Step:
    base = model.base_model(done["model"])
    listeners: list[MetricsCallback] = [p.on_metrics] if p.on_metrics else []

    def on_record(record: dict[str, Any]) -> None:
        for listener in listeners:
            listener(record)

    tokenized = done["tokenization"]
    step = training.step(
        p.params.training, tokenized, base, done["model"], on_record, done.get("conversion")
    )
    sink = MetricsSink(p.params.registration, p.root, step.key)
    listeners.append(sink)
    return replace(step, build=_closing(sink, step.build))


def _closing(sink: MetricsSink, build: Callable[[Workspace], None]) -> Callable[[Workspace], None]:
    """The build, after which the MLflow run is closed as finished, failed or, if it was
    interrupted, killed. (Prefect's signals, like Ctrl-C, are no `Exception`.)"""

    def build_and_close(workspace: Workspace) -> None:
        try:
            build(workspace)
        except BaseException as error:
            failed = isinstance(error, Exception) and not isinstance(error, Interrupted)
            sink.close("FAILED" if failed else "KILLED")
            raise
        sink.close("FINISHED")

    return build_and_close


def _evaluation(p: Pipeline, done: Artifacts) -> Step:
    return evaluation.step(
        p.params.evaluation,
        done["training"],
        done["tokenization"],
        done["conversion"],
        done["ingestion"],
    )


def _registration(p: Pipeline, done: Artifacts) -> Step:
    lineage = {
        "origin": redacted_value(p.origin),
        "params": redacted_value(p.params.model_dump(mode="json")),
        "stages": {name: {"key": a.key, "digest": a.digest} for name, a in done.items()},
    }
    return registration.step(
        p.params.registration,
        p.root,
        done["training"],
        done["evaluation"],
        done["tokenization"],
        lineage,
    )


STEPS: dict[str, Callable[[Pipeline, Artifacts], Step]] = {
    "ingestion": _ingestion,
    "model": _model,
    "conversion": _conversion,
    "templating": _templating,
    "tokenization": _tokenization,
    "training": _training,
    "evaluation": _evaluation,
    "registration": _registration,
}

NEEDS: dict[str, tuple[str, ...]] = {
    "ingestion": (),
    "model": ("ingestion",),
    "conversion": ("ingestion",),
    "templating": ("conversion", "model"),
    "tokenization": ("templating", "model"),
    "training": ("tokenization", "model"),
    "evaluation": ("ingestion", "conversion", "training", "tokenization"),
    "registration": ("training", "evaluation", "tokenization"),
}

ORDER = tuple(STEPS)
STAGES = tuple(name for name in ORDER if name != "model")
"""The seven stages of data; `model` stands beside them."""


def checked_stage(name: str) -> str:
    """`name`, if it is a stage.

    Raises:
        ParamsError: it is none.
    """
    if name not in ORDER:
        raise ParamsError(f"there is no stage {name!r}; the stages are {', '.join(ORDER)}")
    return name


def run_steps(
    pipeline: Pipeline, obtain: Callable[[Step], Artifact], until: str | None = None
) -> Iterator[tuple[str, Artifact]]:
    """Every stage's artifact in order, up to and with `until`."""
    done: dict[str, Artifact] = {}
    for stage in ORDER:
        done[stage] = obtain(pipeline.step(stage, done))
        yield stage, done[stage]
        if stage == until:
            return
