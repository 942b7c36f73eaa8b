"""A stage and a run as Markdown, for whoever looks at them in a browser.

Text that comes out of data, params or errors stands in it through `literal`, so that it shows as
itself: no markup, no link, no image and no table cell of its own.
"""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flows.pipeline import Planned
from tasks.artifact import Artifact, Ledger

LONGEST_TEXT = 500
MOST_NUMBERS = 60
EXAMPLES = 5
_WORD_JOINER = "\u2060"
_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#!|&~$]")
_LINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)", re.IGNORECASE)


def literal(text: object, limit: int = LONGEST_TEXT) -> str:
    """`text` as Markdown that shows exactly these characters, in one line; cut to `limit`.

    Backslashes, because one of Prefect's two browser interfaces shows entities as they are; and an
    invisible joiner inside of web addresses, because both make links of bare ones.
    """
    shown = " ".join(str(text).split())
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    shown = "".join(c if c.isprintable() else "\ufffd" for c in shown)
    return _LINK.sub(_WORD_JOINER, _MARKUP.sub(r"\\\g<0>", shown))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], numbers: int = 0) -> str:
    """A table; the last `numbers` columns are aligned to the right."""
    rules = ["---"] * (len(headings) - numbers) + ["--:"] * numbers
    cells = [[literal(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [list(headings), rules, *cells])


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
        table(("", ""), identity),
    ]
    if "ledger" in artifact.report:
        parts += _ledger(Ledger.from_json(artifact.report["ledger"]))
    if "bounds" in artifact.report:
        parts += decision(artifact.report)
    parts += _unusable(artifact)
    parts += _plots(artifact)
    shown_above = ("ledger", "bounds")
    numbers = {name: v for name, v in artifact.report.items() if name not in shown_above}
    flat = list(flattened(numbers))
    if flat:
        parts += ["### Numbers", table(("name", "value"), flat[:MOST_NUMBERS], numbers=1)]
    if len(flat) > MOST_NUMBERS:
        parts.append(f"{len(flat) - MOST_NUMBERS} more stand in the artifact's record.json.")
    return "\n\n".join(parts)


def summary_page(summary: Mapping[str, Any]) -> str:
    """One finished run: its stages, its metrics, what stands in the registry."""
    stages = {"model": summary["model"]} if summary["model"] else {}
    stages |= summary["stages"]
    rows = [
        (
            name,
            facts["key"],
            "Cached" if facts["cached"] else "Built",
            *(_count(facts[n]) for n in ("rows_in", "rows_out")),
            _count(sum(facts["dropped"].values())) if facts["rows_in"] is not None else "",
            f"{facts['seconds']:.1f}",
        )
        for name, facts in stages.items()
    ]
    headings = ("stage", "key", "state", "rows in", "rows out", "dropped", "seconds")
    parts = [
        "## reward-pipeline",
        f"**{literal(headline(summary))}**",
        table(headings, rows, numbers=4),
    ]
    if summary["metrics"]:
        flat = flattened(summary["metrics"])
        parts += ["### Metrics", table(("name", "value"), flat, numbers=1)]
    if registered := summary["registered"]:
        facts = {name: value for name, value in registered.items() if name != "bounds"}
        parts += [*decision(registered), "### Registered", table(("", ""), flattened(facts))]
    return "\n\n".join(parts)


def headline(summary: Mapping[str, Any]) -> str:
    """The run in one line: how much was cached, the accuracy, the registered version."""
    stages = summary["stages"].values()
    cached = sum(facts["cached"] for facts in stages)
    parts = [f"{cached} of {len(stages)} stages cached"]
    if metrics := summary["metrics"]:
        parts.append(f"accuracy {metrics['accuracy']:.3f}, margin {metrics['margin']:.3f}")
    if registered := summary["registered"]:
        alias = f" ({registered['alias']})" if registered["alias"] else ""
        parts.append(f"registered {registered['name']} version {registered['version']}{alias}")
        if "decision" in registered:
            parts.append(decided(registered))
    return "; ".join(parts)


def decided(registered: Mapping[str, Any]) -> str:
    """What a version was found to be, and why, in one line."""
    return f"{registered['outcome']}: {registered['decision']}"


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
    headings = ("bound", "figure", "asked", "verdict", "")
    return ["### Decision", f"**{literal(decided(registered))}**", table(headings, rows)]


def state_message(artifact: Artifact) -> str:
    """Why a stage was built or reused; of registration also what was decided."""
    if "outcome" not in artifact.report:
        return artifact.reason
    return f"{decided(artifact.report)} ({artifact.reason})"


def flattened(value: Any, name: str = "") -> Iterable[tuple[str, str]]:
    """Nested facts as `(dotted.name, text)`; floats to five significant digits."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flattened(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        yield name, ", ".join(_brief(item) for item in value)
    else:
        yield name, _brief(value)


def _ledger(ledger: Ledger) -> list[str]:
    accounts = ledger.accounts
    counts: dict[str, tuple[int, ...]] = {
        source: (a.rows_in, a.added, a.dropped.total(), a.rows_out)
        for source, a in accounts.items()
    }
    if len(counts) > 1:
        columns = zip(*counts.values(), strict=True)
        counts["all sources"] = tuple(sum(column) for column in columns)
    rows = [(source, *map(_count, numbers)) for source, numbers in counts.items()]
    parts = ["### Rows", table(("source", "in", "added", "dropped", "out"), rows, numbers=4)]
    reasons = [
        (source, reason, _count(n))
        for source, account in accounts.items()
        for reason, n in account.dropped.most_common()
        if n
    ]
    if reasons:
        parts += ["### Dropped", table(("source", "reason", "rows"), reasons, numbers=1)]
    return parts


def _unusable(artifact: Artifact) -> list[str]:
    """The first rows of the quarantine, where there are any."""
    path = artifact.path / "quarantine.parquet"
    if not path.is_file():
        return []
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    count = file.metadata.num_rows
    if not count:
        return []
    batch = next(file.iter_batches(batch_size=EXAMPLES))
    rows = [(f"{r['file']}:{r['row']}", r["reason"], r["message"]) for r in batch.to_pylist()]
    heading = f"### In quarantine: {count:,} rows" + (", the first:" if count > len(rows) else "")
    return [heading, table(("row", "reason", "message"), rows)]


def _plots(artifact: Artifact) -> list[str]:
    """The artifact's pictures, in the page itself: the browser cannot read files of this host."""
    plots = sorted((artifact.path / "plots").glob("*.png"))
    data = [base64.b64encode(path.read_bytes()).decode("ascii") for path in plots]
    return [
        f"![{literal(p.stem)}](data:image/png;base64,{d})" for p, d in zip(plots, data, strict=True)
    ]


def _brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _count(value: Any) -> str:
    return "" if value is None else f"{value:,}"
