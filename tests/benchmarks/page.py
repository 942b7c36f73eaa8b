"""Runs every benchmark against the peer, one after the other, and writes the page of results.

    python -m tests.benchmarks.page --out DIR [--only TEXT ...] [--keep]

DIR gets one JSON file per line of the page, as `python -m tests.benchmarks ... --json` writes it,
and `results.md`. With `--keep`, a line whose JSON file is there is not run again. Nothing else
should run on the machine meanwhile: about an hour on two cores.
"""

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRAINING = ("--steps", "8", "--repeats", "3")


@dataclass(frozen=True)
class Line:
    """One line of the page: what is run, which number counts, and what ratio was asked for."""

    title: str
    arguments: tuple[str, ...]
    number: str
    must: float
    ours: str = "ours"
    memory: str = "memory_mb"


LINES = (
    Line(
        "preparation, 9,248 rows",
        ("prep", "--rows", "9248", "--repeats", "5"),
        "rows_per_second",
        20,
    ),
    Line("preparation, 92,480 rows", ("prep", "--rows", "92480"), "rows_per_second", 20),
    Line(
        "preparation with Qwen3's template, 92,480 rows",
        ("prep", "--rows", "92480", "--template", "qwen3"),
        "rows_per_second",
        20,
    ),
    Line(
        "preparation with plain `tokenizers`, 9,248 rows",
        ("prep", "--rows", "9248", "--contestants", "peer", "ours_tokenizers"),
        "rows_per_second",
        2.5,
        "ours_tokenizers",
    ),
    *(
        Line(
            title,
            ("train", *options, *TRAINING),
            "pairs_per_second",
            must,
            "ours",
            "activations_mb",
        )
        for title, options, must in (
            ("training, hh, float32", ("--pairs", "hh"), 3.8),
            ("training, general, float32", ("--pairs", "general"), 3.8),
            (
                "training, lengths as of general up to 2048, float32",
                ("--pairs", "uf", "--max-length", "2048"),
                3.8,
            ),
            ("training, hh, bfloat16", ("--pairs", "hh", "--dtype", "bfloat16"), 3.3),
            ("training, hh, the peer with checkpointing", ("--pairs", "hh", "--checkpointing"), 5),
            (
                "training, four answers of hh lengths",
                ("--pairs", "ranked_hh", "--batch", "12"),
                12,
            ),
            (
                "training, four answers of general lengths",
                ("--pairs", "ranked", "--batch", "12"),
                12,
            ),
        )
    ),
    Line("evaluation, hh, float32", ("evaluate", "--pairs", "hh"), "pairs_per_second", 3.8),
    Line(
        "evaluation, general, float32", ("evaluate", "--pairs", "general"), "pairs_per_second", 3.8
    ),
)


def main() -> None:
    """Runs what is asked for and writes the page from all that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--root", default="/tmp/reward-pipeline-benchmarks")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of titles")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[str] = []
    reports: list[dict[str, Any]] = []
    for line in LINES:
        name = re.sub(r"[^\w,.]+", "-", line.title)
        file = options.out / f"{name}.json"
        wanted = any(part in line.title for part in options.only)
        if wanted and not (options.keep and file.exists()):
            command = [sys.executable, "-m", "tests.benchmarks", *line.arguments]
            print(f"== {line.title}", file=sys.stderr)
            subprocess.run(
                [*command, "--root", options.root, "--json", str(file)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        if file.exists():
            report: dict[str, Any] = json.loads(file.read_text())
            reports.append(report)
            rows.append(_row(line, report))
    (options.out / "results.md").write_text(_page(reports, rows))


def _row(line: Line, report: dict[str, Any]) -> str:
    peer, ours = (report[line.number][who] for who in ("peer", line.ours))
    tokens = report.get("computed_tokens")
    fewer = f"{tokens['peer']['median'] / tokens[line.ours]['median']:.2f}x" if tokens else ""
    held = report[line.memory]
    least = max(held["peer"]["median"], 1e-9)
    cells = (
        line.title,
        _spread(peer),
        _spread(ours),
        f"**{ours['median'] / peer['median']:.2f}x**",
        f"{line.must:g}x",
        fewer,
        f"{held[line.ours]['median'] / least:.2f}x",
        _equality(report["equal"][line.ours]),
    )
    return f"| {' | '.join(cells)} |"


def _spread(figures: dict[str, float]) -> str:
    return f"{figures['median']:,.4g} ({figures['min']:,.4g} to {figures['max']:,.4g})"


def _equality(found: bool | float) -> str:
    if isinstance(found, bool):
        return "ids equal" if found else "**ids differ**"
    return f"within {found:.0e}"


def _page(reports: list[dict[str, Any]], rows: list[str]) -> str:
    if not reports:
        return "Nothing was measured.\n"
    first = reports[-1]
    packages = ("torch", "transformers", "accelerate", "datasets", "tokenizers", "fastokens", "trl")
    versions = ", ".join(f"{name} {first[name]}" for name in packages)
    commits = sorted({report["commit"] for report in reports})
    return "\n".join(
        [
            f"{first['date']}, commit {', '.join(commits)}; {first['cores']} cores of "
            f"{first['cpu']}; Python {first['python']}, {versions}.",
            "",
            "| what | TRL, per second | ours, per second | ratio | asked for | "
            "computed tokens, TRL to ours | memory, ours to TRL | results |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main()
