"""What a run tells at its end: one JSON object for scripts, a table for people."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.findings import report_path
from flows.markdown import count
from flows.pipeline import ORDER, STAGES
from flows.plan import Planned
from flows.result_lines import dropped_lines, result_lines
from tasks.artifact import Artifact, Ledger, Store
from tasks.artifact.record import RECORD, read_artifact
from tasks.artifact.refs import UNFINISHED, params_file, refs, time_of
from tasks.registration.task import SHOWN

if TYPE_CHECKING:
    from rich.console import Console

MOST_WARNINGS = 10
"""Of one stage: ingestion may have some of every file."""


def summary_of(artifacts: Mapping[str, Artifact]) -> dict[str, Any]:
    """The object that `run --json` prints; `registered` is None before the registration."""
    evaluated, registered = artifacts.get("evaluation"), artifacts.get("registration")
    return {
        "stages": {name: stage_facts(artifacts[name]) for name in STAGES if name in artifacts},
        "model": stage_facts(artifacts["model"]) if "model" in artifacts else None,
        "metrics": dict(evaluated.report["metrics"]) if evaluated else {},
        "warnings": [
            line
            for name in ORDER
            if name in artifacts and name != "registration"  # it repeats those of evaluation
            for line in _warnings(artifacts[name])
        ],
        "benchmarks": dict(evaluated.report.get("benchmarks", {})) if evaluated else {},
        "report": _report(registered, evaluated),
        "registered": {name: registered.report[name] for name in SHOWN} if registered else None,
    }


def _warnings(artifact: Artifact) -> list[str]:
    """What the stage warns of, cached or not: of very many the first, and where all of them are."""
    warnings: list[str] = list(artifact.report.get("warnings", ()))
    left = len(warnings) - MOST_WARNINGS
    if left <= 0:
        return warnings
    more = f"{artifact.stage}: {left} more warnings, see {artifact.path / RECORD}"
    return [*warnings[:MOST_WARNINGS], more]


def stage_facts(artifact: Artifact) -> dict[str, Any]:
    """One stage's line: identity, rows, time, and how this run came by it."""
    report = artifact.report
    ledger = Ledger.from_json(report["ledger"]) if "ledger" in report else None
    return {
        "key": artifact.key,
        "path": str(artifact.path),
        "rows_in": ledger.rows_in if ledger else report.get("rows"),
        "rows_out": ledger.rows_out if ledger else report.get("rows"),
        "dropped": ledger.dropped if ledger else {},
        "seconds": round(artifact.seconds, 3),
        "cached": artifact.cached,
        "reason": artifact.reason,
        "digest": artifact.digest,
    }


def summary_at(summary: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The summary of a run with its paths below `root` (`data/`), which may have been moved since:
    what it told of stands there as it stood below the old one."""
    known = [facts for facts in (*summary["stages"].values(), summary["model"]) if facts]
    there = Path(known[0]["path"]).parents[1]

    def moved(path: str) -> str:
        return str(root / Path(path).relative_to(there))

    def facts_at(facts: Mapping[str, Any]) -> dict[str, Any]:
        return {**facts, "path": moved(facts["path"])}

    return {
        **summary,
        "stages": {name: facts_at(facts) for name, facts in summary["stages"].items()},
        "model": facts_at(summary["model"]) if summary["model"] else None,
        "report": moved(summary["report"]) if summary.get("report") else None,
    }


def with_times(summary: Mapping[str, Any], ref: Path, store: Store) -> dict[str, Any]:
    """The summary of the finished run of a ref with its time and its params file, and the times of
    later ones that are going or did not come to their end, of those that had built anything."""
    last = time_of(ref)
    others = [time for time in map(time_of, refs(store, UNFINISHED)) if time]
    later = [time.isoformat(timespec="seconds") for time in others if last and time > last]
    began = last.isoformat(timespec="seconds") if last else None
    of_run = {"began": began, "params_file": params_file(ref), "unfinished_since": later}
    return {**summary, **of_run}


def times_line(summary: Mapping[str, Any]) -> str:
    """Which run is shown, and whether later ones have not finished."""
    later = summary["unfinished_since"]
    file = f" ({summary['params_file']})" if summary["params_file"] else ""
    line = f"the last finished run, of {summary['began'] or 'a time unknown'}{file}"
    if not later:
        return line
    these = "a later one is" if len(later) == 1 else f"{len(later)} later ones are"
    return f"{line}; {these} going or did not come to an end, the last of {later[-1]}"


def with_alias_now(summary: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The summary of a run with the alias that its version has now: `promote`, `rollback` and later
    runs move it."""
    from tasks.registration import current_alias

    registered: dict[str, Any] | None = summary["registered"]
    there = registered and read_artifact(Path(summary["stages"]["registration"]["path"]))
    if not registered or not isinstance(there, Artifact):
        return dict(summary)
    address: str | None = there.record["ingredients"]["params"]["tracking_uri"]
    return {
        **summary,
        "registered": {**registered, "alias": current_alias(registered, address, root)},
    }


def _report(*artifacts: Artifact | None) -> str | None:
    """The page with everything, of the first artifact that has one."""
    return next((path for a in artifacts if a and (path := report_path(a))), None)


def stage_rows(summary: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The base model and each stage: name, key, how the run came by it, rows in and out, rows
    dropped, seconds."""
    stages = {"base model": summary["model"]} if summary["model"] else {}
    return [
        (
            name,
            facts["key"],
            "Cached" if facts["cached"] else "Built",
            *(count(facts[n]) for n in ("rows_in", "rows_out")),
            "" if facts["rows_in"] is None else count(sum(facts["dropped"].values())),
            f"{facts['seconds']:.1f}",
        )
        for name, facts in (stages | summary["stages"]).items()
    ]


def print_summary(summary: Mapping[str, Any]) -> None:
    """The table of stages, the metrics, and what stands in the registry."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="bold")
    for heading in ("stage", "key", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("in", "out", "dropped", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    colours = {"Cached": "green", "Built": "yellow"}
    for name, key, state, *numbers in stage_rows(summary):
        table.add_row(name, key, f"[{colours[state]}]{state.lower()}[/]", *numbers)
    console = _console()
    console.print(table)
    for line in [*dropped_lines(summary["stages"]), *result_lines(summary)]:
        console.print(line, highlight=False, soft_wrap=True)


def print_plan(planned: list[Planned]) -> None:
    """One line per stage: verdict, key and reason."""
    from rich.markup import escape
    from rich.table import Table

    colours = {"HIT": "green", "RUN": "yellow", "DEPENDS": "dim"}
    table = Table(header_style="bold")
    for heading in ("stage", "plan", "key", "reason"):
        table.add_column(heading, overflow="fold")
    for line in planned:
        verdict = f"[{colours[line.verdict]}]{line.verdict}[/]"
        table.add_row(line.stage, verdict, line.key or "", escape(line.reason))
    _console().print(table)


def _console() -> "Console":
    """Wide where nobody watches; what it is given stays text, `:100:` too."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 140, emoji=False)
