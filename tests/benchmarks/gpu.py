"""Training on one GPU: the peer at its defaults and at its best settings against ours.

    python -m tests.benchmarks.gpu --sizes 0.6B 1.7B 4B --lengths hh uf turns --json gpu.json

Models have the shapes of Qwen3 and random weights; pairs are random ids whose lengths are those of
hh-rlhf, of UltraFeedback and of long conversations. The peer at its best has no checkpointing,
larger batches, rows of like length together, and liger's kernels where they are installed; ours
comes with its variable-length attention and with FlexAttention in its place (on a GPU alone: it has
no gradients elsewhere). Told of each: pairs, tokens and computed tokens a second, the share of the
device's measured bfloat16 matrix product (MFU, on computed tokens: 6 N floating-point operations
each), peak memory, and how far bfloat16 rewards are from float32 ones.
Every contestant runs in a process of its own; `--wheels DIR` is put on its path: where nothing can
be installed, unpacked wheels of trl, datasets, dill, multiprocess, orjson, pydantic, pydantic-core,
annotated-types and typing-inspection do beside torch, transformers, accelerate, peft, pyarrow and
pandas.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.gpu_contestant import CONTESTANTS, SHAPES
from tests.benchmarks.harness import ROOT, surroundings


def main() -> None:
    """Runs every combination, prints one line each, writes all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=[*SHAPES], default=["0.6B"])
    parser.add_argument("--lengths", nargs="+", choices=["hh", "uf", "turns"], default=["hh", "uf"])
    parser.add_argument("--contestants", nargs="+", choices=[*CONTESTANTS], default=[*CONTESTANTS])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--max-length", type=int, default=1024)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: list[dict[str, Any]] = []
    for size in given.sizes:
        for lengths in given.lengths:
            for turn in range(given.repeats):
                for name in given.contestants:
                    told = {"who": name, "size": size, "lengths": lengths, "turn": turn}
                    told |= {"steps": given.steps, "max_length": given.max_length}
                    found.append({**told, **_child(told, given.wheels)})
                    print(json.dumps(found[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps({**surroundings(), "runs": found}, indent=1) + "\n")


def _child(told: dict[str, Any], wheels: Path | None) -> dict[str, Any]:
    path = os.pathsep.join(str(p) for p in (ROOT, wheels) if p)
    command = [sys.executable, "-m", "tests.benchmarks.gpu_contestant", json.dumps(told)]
    child = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    if child.returncode:  # out of memory, say: a finding too
        return {"failed": child.returncode}
    return json.loads(child.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
