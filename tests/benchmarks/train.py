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

import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainerCallback

from tests.benchmarks.data import computed_tokens, named_for_the_peer, prepared, some_pairs
from tests.benchmarks.harness import PeakMemory, rss
from tests.benchmarks.random_pairs import PAIRS_OF_FOUR, RANKED

WARM_UP_STEPS = 2


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Trains `steps` steps; seconds are of one step, after the warm-up."""
    torch.set_num_threads(told["threads"])
    root, batch = Path(told["root"]), told["batch"]
    directory = prepared(root, told["max_length"]).model
    pairs = some_pairs(told["pairs"], root, batch * told["steps"], told["max_length"])
    model = seeded_model(directory, told["dtype"])
    clock = Clock()
    made = of_the_peer if told["who"] == "peer" else of_ours
    trainer = made(
        told,
        pairs,
        model=model,
        processing_class=AutoTokenizer.from_pretrained(directory),
        callbacks=[clock],
    )
    tokens = computed_tokens(pairs, batch, told["who"] in ("peer", "padded"))
    before = rss()
    with PeakMemory() as memory:
        trainer.train()
    seconds = clock.seconds[WARM_UP_STEPS:]
    states = 3 * sum(p.numel() * p.element_size() for p in model.parameters())
    return {
        "pairs_per_second": batch * len(seconds) / sum(seconds),
        "step_seconds": median(seconds),
        "computed_tokens": tokens,
        "cpu_seconds": sum(clock.busy[WARM_UP_STEPS:]),
        "peak_mb": (memory.peak - before) / 2**20,
        "activations_mb": max(0.0, (memory.peak - before - states) / 2**20),
        "losses": [r["loss"] for r in trainer.state.log_history if "loss" in r],
    }


def seeded_model(directory: Path, dtype: str) -> Any:
    """The same weights and the same head for every contestant."""
    torch.manual_seed(0)
    model: Any = AutoModelForSequenceClassification.from_pretrained(
        directory, num_labels=1, dtype=getattr(torch, dtype)
    )
    torch.nn.init.normal_(model.score.weight, std=0.02, generator=torch.Generator().manual_seed(0))
    return model


def of_the_peer(told: dict[str, Any], pairs: dict[str, list[Any]], **options: Any) -> Any:
    """TRL's trainer."""
    from trl import RewardConfig, RewardTrainer

    rows = Dataset.from_dict(named_for_the_peer(pairs))
    config: dict[str, Any] = common(told) | {"gradient_checkpointing": told["checkpointing"]}
    args: Any = RewardConfig(**config)
    return RewardTrainer(args=args, train_dataset=rows, **options)


def of_ours(told: dict[str, Any], pairs: dict[str, list[Any]], **options: Any) -> Any:
    """Our trainer; `who` may name a layout."""
    from tasks.training import RewardConfig, RewardTrainer

    config: dict[str, Any] = common(told) | {"preflight": False}
    if told["who"] != "ours":
        config["layout"] = told["who"]
    if told["pairs"] in RANKED:
        config["loss"] = "all_pairs"
        config["per_device_train_batch_size"] //= PAIRS_OF_FOUR
    return RewardTrainer(
        args=RewardConfig(**config), train_dataset=Dataset.from_dict(pairs), **options
    )


def common(told: dict[str, Any]) -> dict[str, Any]:
    """What both configurations hold."""
    return {
        "output_dir": f"{told['root']}/out-{told['who']}",
        "per_device_train_batch_size": told["batch"],
        "train_sampling_strategy": "sequential",
        "max_steps": told["steps"],
        "gradient_checkpointing": False,
        "max_length": told["max_length"],
        "learning_rate": 1e-5,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "bf16": False,
        "use_cpu": True,
        "seed": 1,
    }


class Clock(TrainerCallback):
    """Seconds of every step, of the clock and of all cores."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.busy: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Starts the clock."""
        self.start = time.perf_counter(), time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Reads it."""
        self.seconds.append(time.perf_counter() - self.start[0])
        self.busy.append(time.process_time() - self.start[1])


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
