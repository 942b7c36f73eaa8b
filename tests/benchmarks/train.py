"""Training: the peer's RewardTrainer and ours on the same pairs, in the same order, same weights.

Told as JSON: who, pairs (a kind of `data`; of ranked lists all six pairs of four answers), dtype,
checkpointing, batch, steps, max_length, threads, root. Both get token ids: preparation is not in
the figures.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.data import PAIRS_OF_FOUR, RANKED, computed_tokens, prepared, some_pairs
from tests.benchmarks.harness import PeakMemory, rss

WARM_UP_STEPS = 2


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Trains `steps` steps; seconds are of one step, after the warm-up."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainerCallback

    torch.set_num_threads(told["threads"])
    ready = prepared(Path(told["root"]), told["max_length"])
    count = told["batch"] * told["steps"]
    pairs = some_pairs(told["pairs"], Path(told["root"]), count, told["max_length"])
    tokens = computed_tokens(pairs, told["batch"], told["who"] in ("peer", "padded"))
    peer = told["who"] == "peer"
    batch = told["batch"]
    if peer:
        from trl import RewardConfig, RewardTrainer

        names = {"chosen_input_ids": "chosen_ids", "rejected_input_ids": "rejected_ids"}
        pairs = {names[name]: ids for name, ids in pairs.items() if name in names}
        options: dict[str, Any] = {}
    else:
        from tasks.training import RewardConfig, RewardTrainer

        options = {"layout": told["who"]} if told["who"] != "ours" else {}
        options["preflight"] = False
        if told["pairs"] in RANKED:
            options["loss"] = "all_pairs"
            batch //= PAIRS_OF_FOUR
    torch.manual_seed(0)
    dtype = getattr(torch, told["dtype"])
    model = AutoModelForSequenceClassification.from_pretrained(
        ready.model, num_labels=1, dtype=dtype
    )
    torch.nn.init.normal_(model.score.weight, std=0.02, generator=torch.Generator().manual_seed(0))

    class Clock(TrainerCallback):
        def __init__(self) -> None:
            self.seconds: list[float] = []
            self.busy: list[float] = []

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.start = time.perf_counter(), time.process_time()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.seconds.append(time.perf_counter() - self.start[0])
            self.busy.append(time.process_time() - self.start[1])

    clock = Clock()
    args = RewardConfig(
        output_dir=f"{told['root']}/out-{told['who']}",
        per_device_train_batch_size=batch,
        train_sampling_strategy="sequential",
        max_steps=told["steps"],
        gradient_checkpointing=told["checkpointing"] and peer,
        max_length=told["max_length"],
        learning_rate=1e-5,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        bf16=False,
        use_cpu=True,
        seed=1,
        **options,
    )
    trainer = RewardTrainer(
        model=model,
        args=args,
        train_dataset=Dataset.from_dict(pairs),
        processing_class=AutoTokenizer.from_pretrained(ready.model),
        callbacks=[clock],
    )
    before = rss()
    with PeakMemory() as memory:
        trainer.train()
    seconds = clock.seconds[WARM_UP_STEPS:]
    states = 3 * sum(p.numel() * p.element_size() for p in model.parameters())
    return {
        "pairs_per_second": told["batch"] * len(seconds) / sum(seconds),
        "step_seconds": median(seconds),
        "computed_tokens": tokens,
        "cpu_seconds": sum(clock.busy[WARM_UP_STEPS:]),
        "peak_mb": (memory.peak - before) / 2**20,
        "activations_mb": max(0.0, (memory.peak - before - states) / 2**20),
        "losses": [r["loss"] for r in trainer.state.log_history if "loss" in r],
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
