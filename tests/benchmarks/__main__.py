"""Runs a benchmark and prints what it found; with `--json FILE` also writes it.

    python -m tests.benchmarks prep     [--rows N] [--template chatml|qwen3] [--shape SHAPE]
                                        [--contestants peer ours ours_tokenizers script]
    python -m tests.benchmarks append   [--rows N]     rows appended to those: ours alone
    python -m tests.benchmarks memory                  of prep, for two numbers of rows: ours alone
    python -m tests.benchmarks train    [--pairs KIND] [--dtype float32|bfloat16] ...
    python -m tests.benchmarks evaluate [--pairs KIND] [--contestants peer ours] ...
    python -m tests.benchmarks score    [--pairs ranked|ranked_hh]   four answers to a prompt
    python -m tests.benchmarks rerun                   all is cached: ours alone
    python -m tests.benchmarks serve    [--clients N] --contestants loader alone ours

Each turn of a contestant is a process of its own, one at a time, the peer's and ours alternating.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.data import SHAPES, SOURCES
from tests.benchmarks.harness import summary, surroundings, turns
from tests.benchmarks.random_pairs import LENGTHS, RANKED

NUMBERS = {
    "prep": ("rows_per_second", "memory_mb"),
    "append": ("share_percent", "full_seconds", "again_seconds"),
    "memory": ("memory_mb", "seconds"),
    "train": ("pairs_per_second", "cpu_seconds", "computed_tokens", "activations_mb"),
    "evaluate": ("pairs_per_second", "cpu_seconds", "computed_tokens", "memory_mb"),
    "score": ("answers_per_second", "cpu_seconds", "memory_mb"),
    "rerun": ("seconds",),
    "serve": ("requests_per_second", "p50_ms", "p95_ms", "p99_ms", "cpu_ms"),
}


ALONE = {"append": ["ours"], "memory": ["25000", "100000"], "rerun": ["help", "run"]}
"""Benchmarks without a peer, and what takes turns in them."""
STAGES = ("stages", "full_stages", "again_stages")
"""What a benchmark may tell of the seconds of every stage."""
ROWS = {"prep": 9248, "append": 100_000}


def main() -> None:
    """Parses the command line, runs, prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("name", choices=[*NUMBERS])
    parser.add_argument("--root", default="/tmp/reward-pipeline-benchmarks")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--contestants", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rows", type=int, help="prep: of JSONL, 9248; append: 100000")
    parser.add_argument("--template", default="chatml", help="prep: or qwen3, as the peer has it")
    parser.add_argument("--model", help="prep: a directory with another tokenizer")
    parser.add_argument("--shape", choices=[*SHAPES], default="explicit", help="prep: of its rows")
    parser.add_argument("--pairs", choices=[*SOURCES, *LENGTHS, *RANKED], default="hh")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--checkpointing", action="store_true", help="train: on the peer's side")
    parser.add_argument("--batch", type=int, default=8, help="pairs in one batch")
    parser.add_argument("--steps", type=int, default=8, help="train: optimizer steps")
    parser.add_argument("--max-length", type=int, default=1024)
    parser.add_argument("--clients", type=int, default=1, help="serve: at the same time")
    parser.add_argument("--requests", type=int, default=240, help="serve: in all")
    options = vars(parser.parse_args())
    name, file = options.pop("name"), options.pop("json")
    options["rows"] = options["rows"] or ROWS.get(name)
    contestants = options.pop("contestants") or ALONE.get(name, ["peer", "ours"])
    repeats = options.pop("repeats")
    results = turns(f"tests.benchmarks.{name}", contestants, options, repeats)
    report: dict[str, Any] = {"benchmark": name, **options, **surroundings(), "repeats": repeats}
    for number in NUMBERS[name]:
        report[number] = summary(results, number)
    report |= {part: _stages(results, part) for part in STAGES if part in _first(results)}
    report["equal"] = _equal(name, results)
    print(json.dumps(report, indent=1))
    if file:
        file.write_text(json.dumps(report, indent=1) + "\n")
    _table(report, NUMBERS[name])


def _first(results: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return [*results.values()][-1][0]


def _stages(results: dict[str, list[dict[str, Any]]], part: str) -> dict[str, dict[str, float]]:
    """Median seconds of every stage, per contestant that tells them."""
    return {
        who: {stage: median([run[part][stage] for run in runs]) for stage in runs[0][part]}
        for who, runs in results.items()
        if runs[0][part]
    }


def _equal(name: str, results: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Largest difference of what both computed: losses or rewards; for prep: whether ids agree."""
    first, *others = results
    if name == "serve" or name in ALONE:
        return {}
    if name == "prep":
        return {other: results[other][0]["ids"] == results[first][0]["ids"] for other in others}
    values = {
        who: runs[0]["losses" if name == "train" else "rewards"] for who, runs in results.items()
    }
    return {
        other: max(abs(a - b) for a, b in zip(values[first], values[other], strict=True))
        for other in others
    }


def _table(report: dict[str, Any], numbers: tuple[str, ...]) -> None:
    first = next(iter(report[numbers[0]]))
    for number in numbers:
        base = report[number][first]["median"]
        for who, figures in report[number].items():
            ratio = figures["median"] / base if base else float("nan")
            low, high = figures["min"], figures["max"]
            print(
                f"{number:18} {who:16} {figures['median']:10.3f} [{low:.3f}, {high:.3f}] "
                f"{ratio:6.2f}x",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
