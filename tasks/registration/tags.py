"""The figures of a version that the registry's list shows: tags, since no metrics stand there."""

from collections.abc import Mapping
from typing import Any

from tasks.registration.subject import Subject


def figure_tags(subject: Subject) -> dict[str, str]:
    """Of the held-out pairs and the benchmarks."""
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
