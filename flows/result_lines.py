"""The lines below the table of a run: what was dropped, what came out, what to beware of."""

from collections.abc import Mapping
from typing import Any

from flows.findings import with_current_alias


def dropped_lines(stages: Mapping[str, Any]) -> list[str]:
    """Where rows went that a stage did not hand on, stage by stage."""
    return [
        f"{name} dropped "
        + ", ".join(f"{reason} {count:,}" for reason, count in facts["dropped"].items())
        for name, facts in stages.items()
        if facts["dropped"]
    ]


def result_lines(summary: Mapping[str, Any]) -> list[str]:
    """Metrics, benchmarks, what stands in the registry, and warnings."""
    from rich.markup import escape

    metrics, registered = summary["metrics"], summary["registered"]
    lines: list[str] = []
    if metrics:
        low, high = metrics["accuracy_interval"]
        undecided = metrics.get("undecided", 0)
        apart = f" and {undecided:,} without a better side" if undecided else ""
        plain = metrics.get("loss_without_margins")
        margins = "" if plain is None else f" ({plain:.3f} without the data's margins)"
        lines.append(
            f"evaluation: accuracy [bold]{metrics['accuracy']:.3f}[/] (95% {low:.3f} to "
            f"{high:.3f}), ties as 1/2 {metrics['accuracy_ties_half']:.3f}, margin "
            f"{metrics['margin']:.3f}, loss {metrics['loss']:.3f}{margins}, on "
            f"{metrics['pairs']} pairs{apart}"
        )
        lines.append(
            f"baseline: preferring the answer of more tokens gives {metrics['length_baseline']:.3f}"
        )
    lines += [
        f"benchmark: {escape(_benchmark(benchmark))}"
        for benchmark in summary.get("benchmarks", {}).values()
    ]
    if registered:
        alias = registered["alias"] or "no alias"
        lines.append(
            f"registered: [bold]{registered['name']}[/] version {registered['version']} "
            f"({alias}): models:/{registered['name']}/{registered['version']}"
        )
        line = f"[bold]{registered['outcome']}[/]: {escape(registered['decision'])}"
        lines.append(f"decision: {with_current_alias(registered, line)}")
        lines += [
            f"  fails: {escape(str(bound['name']))} {_rounded(bound['value'])}, bound "
            f"{bound['relation']} {bound['bound']} {escape(str(bound['note']))}".rstrip()
            for bound in registered["bounds"]
            if not bound["holds"]
        ]
    lines += [f"warning: {escape(warning)}" for warning in summary.get("warnings", ())]
    if summary.get("report"):
        lines.append(f"report: {escape(summary['report'])}")
    return lines


def _benchmark(benchmark: Mapping[str, Any]) -> str:
    """Its score, and on how many of the items that were given."""
    figure, items = benchmark["overall"] or benchmark.get("item_mean"), benchmark["items"]
    if not figure:
        return f"{benchmark['title']} has no score, on {items:,} items"
    count = f"{items:,}" if figure["n"] == items else f"{figure['n']:,} of {items:,}"
    if not benchmark["overall"]:
        mean = f"{figure['score']:.3f} is the mean over {count} items"
        return f"{benchmark['title']} has no score: {mean}, none is of a subset that it has"
    part = "" if benchmark["complete"] else ", not all of it"
    return f"{benchmark['title']} {figure['score']:.3f}, on {count} items{part}"


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
