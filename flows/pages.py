"""A stage and a run as Markdown, for whoever looks at them in a browser."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from flows.findings import (
    DETAILS,
    benchmark_section,
    decision_line,
    decision_section,
    report_path,
    report_section,
    warning_section,
)
from flows.markdown import count, flattened, literal, table
from flows.plan import Planned
from flows.summary import stage_rows
from tasks.artifact import Artifact, Ledger
from tasks.artifact.ledger import QUARANTINE_FILE

MOST_NUMBERS = 60
EXAMPLES = 5


def plan_rows(planned: Iterable[Planned]) -> list[dict[str, str]]:
    """The plan as rows of a Prefect table; its cells are plain text already."""
    return [
        {"stage": line.stage, "plan": line.verdict, "key": line.key or "", "reason": line.reason}
        for line in planned
    ]


def stage_page(artifact: Artifact) -> str:
    """Identity, ledger, examples of unusable rows, plots and numbers of one stage."""
    state = "Cached" if artifact.cached else "Built"
    identity = [
        ("key", artifact.key),
        ("path", artifact.path),
        ("digest", artifact.digest),
        ("seconds in this run", f"{artifact.seconds:.2f}"),
        ("seconds to build", f"{artifact.record['seconds']:.2f}"),
        ("built", artifact.record["created"]),
        ("commit", artifact.record["git_commit"] or "none"),
    ]
    parts = [
        f"## {artifact.stage}",
        f"**{state}**: {literal(artifact.reason.removeprefix('cached: '))}",
        table(("what", "is"), identity),
    ]
    if "ledger" in artifact.report:
        parts += _ledger_section(Ledger.from_json(artifact.report["ledger"]))
    report = artifact.report
    if "bounds" in report:
        parts += decision_section(report)
    parts += warning_section(report.get("warnings", ()))
    parts += benchmark_section(report.get("benchmarks", {}))
    parts += report_section(report_path(artifact), report.get("report_uri"))
    parts += _quarantine_section(artifact)
    parts += _plot_images(artifact)
    # The record is of the registration: `promote` and later runs may have moved the alias.
    names = {"alias": "alias when registered"}
    shown = {name: v for name, v in report.items() if name not in ("ledger", *DETAILS)}
    numbers = {names.get(name, name): value for name, value in shown.items()}
    flat = list(flattened(numbers))
    if flat:
        parts += ["### Numbers", table(("name", "value"), flat[:MOST_NUMBERS], numbers=1)]
    if len(flat) > MOST_NUMBERS:
        parts.append(f"{len(flat) - MOST_NUMBERS} more stand in the artifact's record.json.")
    return "\n\n".join(parts)


def summary_page(summary: Mapping[str, Any]) -> str:
    """One finished run: its stages, its metrics, what stands in the registry."""
    headings = ("stage", "key", "state", "rows in", "rows out", "dropped", "seconds")
    parts = [
        "## reward-pipeline",
        f"**{literal(headline(summary))}**",
        table(headings, stage_rows(summary), numbers=4),
    ]
    registered = summary["registered"]
    if registered:
        parts += decision_section(registered)
    parts += warning_section(summary.get("warnings", ()))
    parts += benchmark_section(summary.get("benchmarks", {}))
    parts += report_section(summary.get("report"), registered["report_uri"] if registered else None)
    if summary["metrics"]:
        flat = flattened(summary["metrics"])
        parts += ["### Metrics", table(("name", "value"), flat, numbers=1)]
    if registered:
        facts = {name: value for name, value in registered.items() if name not in DETAILS}
        parts += ["### Registered", table(("what", "is"), flattened(facts))]
    return "\n\n".join(parts)


def headline(summary: Mapping[str, Any]) -> str:
    """The run in one line: how much was cached, the accuracy, the registered version."""
    stages = summary["stages"].values()
    cached = sum(facts["cached"] for facts in stages)
    parts = [f"{cached} of {len(stages)} stages cached"]
    if metrics := summary["metrics"]:
        parts.append(_accuracy(metrics))
    if registered := summary["registered"]:
        alias = f" ({registered['alias']})" if registered["alias"] else ""
        parts.append(f"registered {registered['name']} version {registered['version']}{alias}")
        parts.append(decision_line(registered))
    return "; ".join(parts)


def stage_headline(artifact: Artifact) -> str:
    """What came out of a stage in one line; nothing of one that has neither rows nor figures."""
    report = artifact.report
    if "outcome" in report:
        return decision_line(report)
    if metrics := report.get("metrics"):
        return _accuracy(metrics)
    if last := report.get("last"):
        names = [name for name in ("loss", "accuracy") if name in last]
        numbers = ", ".join(f"{name} {last[name]:.3g}" for name in names)
        return f"step {last['step']:,}" + (f": {numbers} on its last pairs" if numbers else "")
    if "ledger" not in report:
        return ""
    ledger = Ledger.from_json(report["ledger"])
    given = ledger.rows_in + sum(account.added for account in ledger.accounts.values())
    return f"{ledger.rows_out:,} of {given:,} rows"


def state_message(artifact: Artifact) -> str:
    """What came out of a stage, and why it was built or reused."""
    found = stage_headline(artifact)
    return f"{found} ({artifact.reason})" if found else artifact.reason


def _accuracy(metrics: Mapping[str, Any]) -> str:
    return f"accuracy {metrics['accuracy']:.3f}, margin {metrics['margin']:.3f}"


def _ledger_section(ledger: Ledger) -> list[str]:
    accounts = ledger.accounts
    counts: dict[str, tuple[int, ...]] = {
        source: (a.rows_in, a.added, a.dropped.total(), a.rows_out)
        for source, a in accounts.items()
    }
    if len(counts) > 1:
        columns = zip(*counts.values(), strict=True)
        counts["all sources"] = tuple(sum(column) for column in columns)
    rows = [(source, *map(count, numbers)) for source, numbers in counts.items()]
    parts = ["### Rows", table(("source", "in", "added", "dropped", "out"), rows, numbers=4)]
    reasons = [
        (source, reason, count(n))
        for source, account in accounts.items()
        for reason, n in account.dropped.most_common()
        if n
    ]
    if reasons:
        parts += ["### Dropped", table(("source", "reason", "rows"), reasons, numbers=1)]
    return parts


def _quarantine_section(artifact: Artifact) -> list[str]:
    """The first rows of the quarantine, where there are any."""
    path = artifact.path / QUARANTINE_FILE
    if not path.is_file():
        return []
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        total = file.metadata.num_rows
        if not total:
            return []
        first = next(file.iter_batches(batch_size=EXAMPLES)).to_pylist()
    rows = [(f"{row['file']}:{row['row']}", row["reason"], row["message"]) for row in first]
    heading = f"### In quarantine: {total:,} rows" + (", the first:" if total > len(rows) else "")
    return [heading, table(("row", "reason", "message"), rows)]


def _plot_images(artifact: Artifact) -> list[str]:
    """The artifact's pictures, in the page itself: the browser cannot read files of this host."""
    plots = sorted((artifact.path / "plots").glob("*.png"))
    data = [base64.b64encode(path.read_bytes()).decode("ascii") for path in plots]
    return [
        f"![{literal(p.stem)}](data:image/png;base64,{d})" for p, d in zip(plots, data, strict=True)
    ]
