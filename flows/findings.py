"""The results of a run, as sections of a Markdown page: decision, warnings, benchmarks, reports.

In: what the evaluation's and the registration's records and the run's summary hold. Out: lists of
paragraphs; empty where there is nothing to tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.markdown import bullets, count, literal, table
from tasks.artifact import Artifact

REPORT = "report.html"
DETAILS = ("bounds", "warnings", "benchmarks", "report_uri")
"""Of a record's report, what these sections show."""


def decided(registered: Mapping[str, Any]) -> str:
    """The outcome for a version, and the reason, in one line."""
    return as_of_now(registered, f"{registered['outcome']}: {registered['decision']}")


def as_of_now(registered: Mapping[str, Any], line: str) -> str:
    """The line of a decision, with the version's present alias if that is another one."""
    alias, outcome = registered.get("alias"), registered["outcome"]
    if alias == (None if outcome == "rejected" else outcome):
        return line
    return f"when registered: {line}; now {alias or 'no alias'}"


def decision(registered: Mapping[str, Any]) -> list[str]:
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
    return ["### Decision", f"**{literal(decided(registered))}**", table(headings, rows)]


def warnings(found: Sequence[str]) -> list[str]:
    """What nobody should overlook before this reward is optimised against."""
    return ["### Warnings", bullets(found)] if found else []


def benchmarks(found: Mapping[str, Any]) -> list[str]:
    """Overall and sections of every benchmark."""
    rows = [row for each in found.values() for row in _rows(each)]
    headings = ("benchmark", "part", "score", "95 % interval", "items")
    return ["### Benchmarks", table(headings, rows, numbers=3)] if rows else []


def _rows(found: Mapping[str, Any]) -> Iterable[tuple[str, str, str, str, str]]:
    whole = "overall" if found["complete"] else "overall, of what is there"
    parts = {whole: found["overall"], **found["sections"]}
    if "item_mean" in found:
        parts = {"mean over items": found["item_mean"]}
    for name, figures in parts.items():
        if figures is None:
            yield found["title"], name, "none", "", count(found["items"])
            continue
        low, high = figures["score_interval"] or (None, None)
        span = "" if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f} %"
        yield found["title"], name, f"{100 * figures['score']:.1f} %", span, count(figures["n"])


def reports(artifact: Artifact) -> list[str]:
    """Where the page with everything lies, on this machine and in MLflow."""
    return where(report_path(artifact), artifact.report.get("report_uri"))


def report_path(artifact: Artifact) -> str | None:
    """The page among an artifact's files."""
    path = artifact.path / REPORT
    return str(path) if path.is_file() else None


def where(path: str | Path | None, uri: str | None) -> list[str]:
    """The same of known places."""
    places = [("file", path), ("MLflow", uri)]
    rows = [(name, place) for name, place in places if place]
    return ["### Report", table(("where", "the page with all figures"), rows)] if rows else []
