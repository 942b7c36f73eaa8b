"""The whole command again, when all of it stands; and what its help costs. Ours alone.

Told as JSON: who ("help": `--help`; "run": the quickstart, every stage of which is cached), root.
Each is a process of its own, timed from its start to its end.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import ROOT

STAGES = 7


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Seconds of one command; the first turn of "run" builds what the others find."""
    root = Path(told["root"]) / "rerun"
    run = ["run", str(ROOT / "params" / "quickstart.yaml"), "--root", str(root), "--json"]
    if told["who"] == "help":
        return {"seconds": timed(["--help"])[0]}
    if told["turn"] == 0:
        timed(run)
    seconds, said = timed(run)
    cached = [stage["cached"] for stage in json.loads(said)["stages"].values()]
    assert cached == [True] * STAGES, f"not all is cached: {cached}"
    return {"seconds": seconds}


def timed(arguments: list[str]) -> tuple[float, str]:
    """Seconds and stdout of the command."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "flows", *arguments],
        cwd=ROOT,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - start, done.stdout


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
