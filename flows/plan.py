"""What a run would do, stage by stage: looked at, without touching anything."""

from dataclasses import dataclass

from flows.beforehand import check_given
from flows.pipeline import ORDER, Pipeline
from tasks.artifact import Artifact, Step, Store


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
        """An object of what `plan --json` prints."""
        told = {"stage": self.stage, "verdict": self.verdict, "key": self.key}
        return told | {"reason": self.reason}


def plan(pipeline: Pipeline) -> list[Planned]:
    """What a run would do; looks, and touches nothing."""
    check_given(pipeline.params)
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
            causes = (*finding.causes, *_resumption(pipeline.store, step))
            planned.append(Planned(stage, "RUN", step.key, causes))
    return planned


def _resumption(store: Store, step: Step) -> list[str]:
    """What an earlier, killed attempt has left to continue from."""
    work = store.work(step)
    units = len(list((work / "units").glob("*.json")))
    checkpoints = sorted(
        (path.parent.name for path in work.glob("scratch/**/checkpoint-*/MANIFEST.json")),
        key=lambda name: int(name.rpartition("-")[2]),
    )
    found = [f"resumes: {units} finished units"] if units else []
    return found + ([f"resumes: {checkpoints[-1]}"] if checkpoints else [])
