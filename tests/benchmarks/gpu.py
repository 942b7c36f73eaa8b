"""Training on one GPU: the peer at its defaults and at its best settings against ours.

    python -m tests.benchmarks.gpu --sizes 0.6B 1.7B 4B --lengths hh uf turns --json gpu.json

Models have the shapes of Qwen3 and random weights; pairs are random ids whose lengths are those of
hh-rlhf, of UltraFeedback and of long conversations. The peer at its best has no checkpointing, its
micro-batches are balanced by length, or made of rows of like length; where memory is short it is
tried again with half the pairs in a forward pass. Without checkpointing both have liger's kernels,
where they are installed, or torch.compile's. Told of each: pairs, tokens and computed tokens a
second (padding is computed, too), the share of the device's measured bfloat16 matrix product (MFU:
6 N floating-point operations for every token that the contestant computes), peak memory, the last
steps' loss, and how far our bfloat16 rewards are from float32 ones.
Every contestant runs in a process of its own, which has imported its packages while the one before
ran, and the JSON is written after each. Where nothing can be installed, unpacked wheels of trl,
datasets, dill, multiprocess, xxhash, orjson, pydantic, pydantic-core, annotated-types and
typing-inspection, in the versions of constraints.txt, do beside torch, transformers, accelerate,
peft, pyarrow and pandas: PYTHONPATH=DIR python -m tests.benchmarks.gpu.
"""

import argparse
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, Self

from tests.benchmarks.gpu_contestant import CONTESTANTS, PEERS_PAIRS
from tests.benchmarks.gpu_model import SHAPES
from tests.benchmarks.harness import ROOT, surroundings

LONGEST_SECONDS = 300
"""Of one contestant."""


def main() -> None:
    """Runs every combination, prints one line each, writes all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=[*SHAPES], default=["0.6B"])
    parser.add_argument("--lengths", nargs="+", choices=["hh", "uf", "turns"], default=["hh", "uf"])
    parser.add_argument("--contestants", nargs="+", choices=[*CONTESTANTS], default=[*CONTESTANTS])
    parser.add_argument("--steps", type=int, default=12, help="of a contestant")
    parser.add_argument("--warm-up", type=int, default=3, help="steps that are not measured")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--max-length", type=int, default=1024)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    around, found = surroundings(), list[dict[str, Any]]()
    turns = product(given.sizes, given.lengths, range(given.repeats), given.contestants)
    with Processes() as processes:
        for size, lengths, turn, name in turns:
            told = {"who": name, "size": size, "lengths": lengths, "turn": turn}
            told |= {n: getattr(given, n) for n in ("steps", "warm_up", "max_length")}
            found.append({**told, **_figures(told, processes)})
            print(json.dumps(found[-1]), flush=True)
            if given.json:
                text = json.dumps({**around, "runs": found}, indent=1)
                given.json.write_text(text + "\n")


def _figures(told: dict[str, Any], processes: "Processes") -> dict[str, Any]:
    """What a contestant tells; a peer that fails is tried with fewer pairs in a forward pass."""
    trainer, checkpointing, _ = CONTESTANTS[told["who"]]
    pairs = PEERS_PAIRS[told["size"]]
    found = processes.run(told)
    while trainer == "peer" and not checkpointing and pairs > 1 and "failed" in found:
        if isinstance(found["failed"], str):
            break  # it was slow, and would be slower with fewer
        pairs //= 2
        found = processes.run(told | {"pairs": pairs})
    return found


class Processes:
    """One for every contestant; the next one's imports while this one's runs."""

    def __init__(self) -> None:
        self.next = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.next.kill()
        self.next.communicate()

    def run(self, told: dict[str, Any]) -> dict[str, Any]:
        """What the contestant prints, or how it ended without."""
        child, self.next = self.next, self._started()
        try:
            printed, _ = child.communicate(json.dumps(told), LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return {"failed": f"not done in {LONGEST_SECONDS} s"}
        if child.returncode:  # out of memory, say: a finding too
            return {"failed": child.returncode}
        return json.loads(printed.strip().splitlines()[-1])

    def _started(self) -> subprocess.Popen[str]:
        path = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        more = {"PYTHONPATH": os.pathsep.join(path)}
        # Batches differ in size: without this, memory that is free lies in pieces that none fits.
        more["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        return subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.gpu_contestant"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | more,
        )


if __name__ == "__main__":
    main()
