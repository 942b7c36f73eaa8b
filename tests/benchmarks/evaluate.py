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

from tests.benchmarks.data import computed_tokens, prepared, some_pairs
from tests.benchmarks.harness import PeakMemory

PAIRS = 96


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Seconds of one evaluation after a first, small one; and all rewards."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.set_num_threads(told["threads"])
    ready = prepared(Path(told["root"]), told["max_length"])
    pairs = some_pairs(told["pairs"], Path(told["root"]), PAIRS, told["max_length"])
    tokens = computed_tokens(pairs, told["batch"], told["who"] in ("peer", "padded"))
    options: dict[str, Any] = {}
    if told["who"] == "peer":
        from trl import RewardConfig, RewardTrainer

        names = {"chosen_input_ids": "chosen_ids", "rejected_input_ids": "rejected_ids"}
        pairs = {names[name]: ids for name, ids in pairs.items()}
    else:
        from tasks.training import RewardConfig, RewardTrainer

        options = {"layout": told["who"]} if told["who"] != "ours" else {}
    model = AutoModelForSequenceClassification.from_pretrained(
        ready.model, num_labels=1, dtype=getattr(torch, told["dtype"])
    )
    torch.nn.init.normal_(model.score.weight, std=0.02, generator=torch.Generator().manual_seed(0))
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
    trainer: Any = RewardTrainer(
        model=model,
        args=args,
        train_dataset=rows.select(range(8)),
        eval_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(ready.model),
    )
    trainer.predict(trainer.eval_dataset.select(range(8)))
    with PeakMemory() as memory:
        start, busy = time.perf_counter(), time.process_time()
        found = trainer.predict(trainer.eval_dataset).predictions
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    if told["who"] == "peer":  # batch after batch, each with its chosen side first
        batches = found.reshape(-1, 2, told["batch"])
        found = batches.transpose(0, 2, 1)
    return {
        "pairs_per_second": PAIRS / seconds,
        "seconds": seconds,
        "computed_tokens": tokens,
        "cpu_seconds": busy,
        "memory_mb": (memory.peak - memory.before) / 2**20,
        "rewards": [float(r) for r in found.reshape(-1)],
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
