"""Tags of a version: what became of it, its figures (the registry keeps no metrics of versions) and
its lineage."""

from collections.abc import Mapping
from typing import Any

from tasks.artifact import Artifact
from tasks.registration.subject import Subject

SEQUENCE = "sequence"
"""The place of its run in the order in which runs began."""
CONTRACT = "contract"
"""How many golden sequences of its score contract its proof replayed."""
REFUSED = "refused"
"""Why it is not what was trained: it gets no alias."""
OUTCOME, DECISION = "outcome", "decision"
"""What it was found to be (champion, challenger, rejected), and why."""
ROLLED_BACK = "rolled_back"
"""Why it was rolled back: only a promotion makes it champion again."""


def figure_tags(subject: Subject) -> dict[str, str]:
    """The figures of the held-out pairs and of the benchmarks."""
    metrics = subject.evaluation.report["metrics"]
    return {
        "accuracy": f"{metrics['accuracy']:.4f}",
        "margin": f"{metrics['margin']:.4f}",
        "loss": f"{metrics['loss']:.5f}",
        "pairs": str(metrics["pairs"]),
        "stage.evaluation": subject.evaluation.key,
        **benchmark_tags(subject.metrics),
    }


def benchmark_tags(metrics: Mapping[str, Any]) -> dict[str, str]:
    """The overall score of every benchmark, and of how much of it where it is not all there."""
    tags: dict[str, str] = {}
    for label, found in (metrics.get("benchmarks") or {}).items():
        if head := found["overall"]:
            part = "" if found["complete"] else f" (of {head['n']} items, not all of it)"
            tags[f"benchmark.{label}"] = f"{head['score']:.4f}{part}"
    return tags


def lineage_tags(lineage: Mapping[str, str], training: Artifact) -> dict[str, str]:
    """The tags that stand on both the run and the version."""
    tags = {f"stage.{stage}": key for stage, key in lineage.items()}
    tags |= {f"library.{n}": str(v) for n, v in training.record["libraries"].items()}
    commit = training.record.get("git_commit")
    if commit is None:
        return tags
    commit, dirty, _ = str(commit).partition("-dirty")
    return tags | {
        "mlflow.source.git.commit": commit,
        "mlflow.source.git.dirty": "true" if dirty else "false",
    }
