"""What a run would do, stage by stage; nothing is changed."""

from dataclasses import dataclass

from flows.checks import check_params
from flows.pipeline import ORDER, Pipeline
from tasks.artifact import Artifact, Step, Store
from tasks.artifact.durable import read_json
from tasks.artifact.step import FAILED

LONGEST_ERROR = 240
"""Characters of an earlier attempt's error that a plan shows."""


@dataclass(frozen=True)
class Planned:
    """What a run would do with one stage: HIT, RUN (with its reasons), or DEPENDS on a RUN."""

    stage: str
    verdict: str
    key: str | None
    causes: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The causes in one line."""
        return "; ".join(self.causes)

    def to_json(self) -> dict[str, str | None]:
        """One object of `plan --json`."""
        return {
            "stage": self.stage,
            "verdict": self.verdict,
            "key": self.key,
            "reason": self.reason,
        }


def plan(pipeline: Pipeline) -> list[Planned]:
    """What a run would do with each stage; changes nothing."""
    check_params(pipeline.params)
    done: dict[str, Artifact] = {}
    planned: list[Planned] = []
    for stage in ORDER:
        waiting = [name for name in pipeline.needs(stage) if name not in done]
        if waiting:
            planned.append(Planned(stage, "DEPENDS", None, (f"on {', '.join(waiting)}",)))
            continue
        step = pipeline.step(stage, done)
        finding = pipeline.store.look(step)
        if finding.artifact:
            done[stage] = finding.artifact
            planned.append(Planned(stage, "HIT", step.key, finding.causes))
        else:
            causes = (*finding.causes, *_earlier_attempt(pipeline.store, step))
            planned.append(Planned(stage, "RUN", step.key, causes))
    return planned


def _earlier_attempt(store: Store, step: Step) -> list[str]:
    """Why an earlier attempt failed, and what it left to resume from."""
    work = store.work(step)
    failed = read_json(work / FAILED)
    found = [f"failed last time: {_shortened(failed['error'])}"] if failed else []
    units = len(list((work / "units").glob("*.json")))
    checkpoints = sorted(
        (path.parent.name for path in work.glob("scratch/**/checkpoint-*/MANIFEST.json")),
        key=lambda name: int(name.rpartition("-")[2]),
    )
    found += [f"resumes: {units} finished units"] if units else []
    return found + ([f"resumes: {checkpoints[-1]}"] if checkpoints else [])


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 1]}…"
