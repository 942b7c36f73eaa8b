"""Runs the contestants of a benchmark turn by turn, each turn in a process of its own.

    parent:  peer, ours, peer, ours, ...      one child at a time, so that they share nothing
    child:   python -m tests.benchmarks.<name> '{"who": "ours", ...}'  -> one JSON line on stdout

What is reported: median, least and most of every number over the turns, ratios of medians, and
beside them the hardware and the versions. Memory is the child's own.
"""

import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("torch", "transformers", "accelerate", "datasets", "tokenizers", "fastokens", "trl")


Results = dict[str, list[dict[str, Any]]]


def turns(
    module: str, contestants: Sequence[str], settings: Mapping[str, Any], repeats: int
) -> Results:
    """`{contestant: [what each turn printed]}`; one turn of each, `repeats` times over."""
    results: Results = {name: [] for name in contestants}
    # Installed libraries are compiled; so is what stands in a checkout, unless this forbids it.
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for turn in range(repeats):
        for name in contestants:
            told = json.dumps({**settings, "who": name, "turn": turn})
            child = subprocess.run(
                [sys.executable, "-m", module, told],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                check=True,
                text=True,
                env=given | {"TOKENIZERS_PARALLELISM": "true", "DO_NOT_TRACK": "true"},
            )
            results[name].append(json.loads(child.stdout.strip().splitlines()[-1]))
            print(
                f"  turn {turn + 1}/{repeats} {name}: {_short(results[name][-1])}", file=sys.stderr
            )
    return results


def _short(result: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v:.4g}" for k, v in result.items() if isinstance(v, int | float))


def summary(results: Mapping[str, list[dict[str, Any]]], number: str) -> dict[str, Any]:
    """Median, least and most of one number, per contestant."""
    found: dict[str, Any] = {}
    for name, runs in results.items():
        values = [run[number] for run in runs]
        found[name] = {"median": median(values), "min": min(values), "max": max(values)}
    return found


def surroundings() -> dict[str, Any]:
    """Date, commit, hardware and versions."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except OSError:  # there is no git here
        return ""


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def rss() -> int:
    """Bytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """Most bytes held while the block ran, looked at a hundred times a second."""

    def __enter__(self) -> "PeakMemory":
        self.before = self.peak = rss()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.peak = max(self.peak, rss())
            time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, rss())
