"""Evaluation: the peer's `trainer.evaluate` and ours on the same pairs and weights.

Told as JSON: who, pairs ("hh", "general", "uf", "turns"), dtype, batch, max_length, threads, root.
Who: "peer", "ours", or a layout of ours.
Compared are the metrics that do not depend on batches, and every reward.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer

from tests.benchmarks.data import computed_tokens, named_for_the_peer, prepared, some_pairs
from tests.benchmarks.harness import PeakMemory
from tests.benchmarks.random_pairs import Pairs
from tests.benchmarks.train import seeded_model

PAIRS = 96
FEW = 8
"""Pairs of the first, small evaluation."""


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Seconds of one evaluation after a first, small one; and all rewards."""
    torch.set_num_threads(told["threads"])
    root = Path(told["root"])
    model = prepared(root, told["max_length"]).model
    pairs = some_pairs(told["pairs"], root, PAIRS, told["max_length"])
    trainer = _trainer(told, pairs, model)
    trainer.predict(trainer.eval_dataset.select(range(FEW)))
    with PeakMemory() as memory:
        start, busy = time.perf_counter(), time.process_time()
        found = trainer.predict(trainer.eval_dataset).predictions
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    if told["who"] == "peer":  # batch after batch, each with its chosen side first
        found = found.reshape(-1, 2, told["batch"]).transpose(0, 2, 1)
    return {
        "pairs_per_second": PAIRS / seconds,
        "seconds": seconds,
        "computed_tokens": computed_tokens(pairs, told["batch"], told["who"] in ("peer", "padded")),
        "cpu_seconds": busy,
        "memory_mb": (memory.peak - memory.before) / 2**20,
        "rewards": [float(r) for r in found.reshape(-1)],
    }


def _trainer(told: dict[str, Any], pairs: Pairs, model: Path) -> Any:
    """The contestant's trainer, which evaluates without training."""
    options: dict[str, Any] = {}
    if told["who"] == "peer":
        from trl import RewardConfig, RewardTrainer

        pairs = named_for_the_peer(pairs)
    else:
        from tasks.training import RewardConfig, RewardTrainer

        options = {"layout": told["who"]} if told["who"] != "ours" else {}
    rows = Dataset.from_dict(pairs)
    args = RewardConfig(
        output_dir=f"{told['root']}/out-{told['who']}",
        per_device_eval_batch_size=told["batch"],
        gradient_checkpointing=False,
        max_length=told["max_length"],
        report_to=[],
        disable_tqdm=True,
        bf16=False,
        use_cpu=True,
        **options,
    )
    return RewardTrainer(
        model=seeded_model(model, told["dtype"]),
        args=args,
        train_dataset=rows.select(range(FEW)),
        eval_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(model),
    )


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
