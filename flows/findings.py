"""The results of a run, as sections of a Markdown page: decision, warnings, benchmarks, reports.

In: what the evaluation's and the registration's records and the run's summary hold. Out: lists of
paragraphs; empty where there is nothing to tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flows.markdown import bullets, count, literal, table
from tasks.artifact import Artifact

REPORT = "report.html"
DETAILS = ("bounds", "warnings", "benchmarks", "report_uri")
"""Of a record's report, what these sections show."""


def decision_line(registered: Mapping[str, Any]) -> str:
    """The outcome for a version, and the reason, in one line."""
    return with_current_alias(registered, f"{registered['outcome']}: {registered['decision']}")


def with_current_alias(registered: Mapping[str, Any], line: str) -> str:
    """The line of a decision, with the version's present alias if that is another one."""
    alias, outcome = registered.get("alias"), registered["outcome"]
    if alias == (None if outcome == "rejected" else outcome):
        return line
    return f"when registered: {line}; now {alias or 'no alias'}"


def decision_section(registered: Mapping[str, Any]) -> list[str]:
    """The decision with every bound of the gate: its figure, what was asked, the verdict."""
    rows = [
        (
            bound["name"],
            "not computable" if bound["value"] is None else f"{bound['value']:.4g}",
            f"{bound['relation']} {bound['bound']:g}",
            "holds" if bound["holds"] else f"fails: at most {bound['otherwise']}",
            bound["note"],
        )
        for bound in registered["bounds"]
    ]
    headings = ("bound", "figure", "asked", "verdict", "note")
    return ["### Decision", f"**{literal(decision_line(registered))}**", table(headings, rows)]


def warning_section(warnings: Sequence[str]) -> list[str]:
    """What nobody should overlook before this reward is optimised against."""
    return ["### Warnings", bullets(warnings)] if warnings else []


def benchmark_section(benchmarks: Mapping[str, Any]) -> list[str]:
    """Overall and sections of every benchmark."""
    rows = [row for each in benchmarks.values() for row in _benchmark_rows(each)]
    headings = ("benchmark", "part", "score", "95 % interval", "items")
    return ["### Benchmarks", table(headings, rows, numbers=3)] if rows else []


def _benchmark_rows(benchmark: Mapping[str, Any]) -> Iterable[tuple[str, str, str, str, str]]:
    whole = "overall" if benchmark["complete"] else "overall, of what is there"
    parts = {whole: benchmark["overall"], **benchmark["sections"]}
    if "item_mean" in benchmark:
        parts = {"mean over items": benchmark["item_mean"]}
    for name, figures in parts.items():
        if figures is None:
            yield benchmark["title"], name, "none", "", count(benchmark["items"])
            continue
        low, high = figures["score_interval"] or (None, None)
        span = "" if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f} %"
        yield benchmark["title"], name, f"{100 * figures['score']:.1f} %", span, count(figures["n"])


def report_path(artifact: Artifact) -> str | None:
    """The page among an artifact's files."""
    path = artifact.path / REPORT
    return str(path) if path.is_file() else None


def report_section(path: str | None, uri: str | None) -> list[str]:
    """Where the page with all figures lies, on this machine and in MLflow."""
    places = [("file", path), ("MLflow", uri)]
    rows = [(name, place) for name, place in places if place]
    return ["### Report", table(("where", "the page with all figures"), rows)] if rows else []
