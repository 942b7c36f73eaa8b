"""Preparation: conversational JSONL -> tokenized pairs, filtered by length, in Arrow files.

The peer reads with `load_dataset("json")` and prepares as its trainer does; ours runs its stages
from ingestion to tokenization: validated, hashed, split, rendered, probed, in durable artifacts.
Imports and the loading of the tokenizer are in neither figure. The ids of both are compared.

Told as JSON: who ("peer", "ours", "ours_tokenizers"), rows, max_length, num_proc, root.
"""

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.benchmarks.data import conversations_file, prepared
from tests.benchmarks.harness import PeakMemory

SIDES = {"peer": ("chosen_ids", "rejected_ids"), "ours": ("chosen_input_ids", "rejected_input_ids")}


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Seconds, rows per second, memory above the start, and the digest of all ids."""
    root = Path(told["root"])
    model = prepared(root, told["max_length"]).model
    source = conversations_file(root, told["rows"])
    work = root / f"prep-{told['who']}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    prepare = peer if told["who"] == "peer" else ours
    seconds, megabytes, pairs = prepare(told, source, model, work)
    pairs = sorted(pairs)
    return {
        "rows_per_second": told["rows"] / seconds,
        "seconds": seconds,
        "memory_mb": megabytes,
        "pairs": len(pairs),
        "ids": hashlib.sha256("".join(pairs).encode()).hexdigest(),
    }


def peer(
    told: dict[str, Any], source: Path, model: Path, work: Path
) -> tuple[float, float, list[str]]:
    """The peer's way."""
    from datasets import load_dataset
    from transformers import AutoTokenizer
    from trl import RewardConfig, RewardTrainer

    tokenizer = AutoTokenizer.from_pretrained(model)
    args = RewardConfig(
        output_dir=str(work),
        max_length=told["max_length"],
        dataset_num_proc=told.get("num_proc"),
        use_cpu=True,
        bf16=False,
        report_to=[],
    )
    trainer: Any = object.__new__(RewardTrainer)
    with PeakMemory() as memory:
        start = time.perf_counter()
        cache = str(work / "cache")
        rows: Any = load_dataset("json", data_files=str(source), split="train", cache_dir=cache)
        done = trainer._prepare_dataset(rows, tokenizer, args, "train")
        seconds = time.perf_counter() - start
    pairs = (_digest(row[a], row[b]) for row in done for a, b in [SIDES["peer"]])
    return seconds, (memory.peak - memory.before) / 2**20, list(pairs)


def ours(
    told: dict[str, Any], source: Path, model: Path, work: Path
) -> tuple[float, float, list[str]]:
    """The stages of the pipeline."""
    import torch
    import transformers

    from flows.params import load
    from flows.pipeline import Pipeline, run_steps
    from tasks.artifact import Artifact
    from tasks.training.batches.pairs import open_pairs

    del torch, transformers  # imported before the clock starts, as the peer's are
    params = {
        "model": {"path": str(model)},
        "ingestion": {"sources": [{"name": "conv", "path": str(source), "layout": "trl"}]},
        "conversion": {"eval_fraction": 0.05, "duplicates": "keep"},
        "tokenization": {"max_length": told["max_length"]},
    }
    if told["who"] == "ours_tokenizers":
        params["tokenization"]["encoder"] = "tokenizers"
    file = work / "prep.yaml"
    file.write_text(json.dumps(params))
    pipeline = Pipeline(load(file), work)
    done: dict[str, Artifact] = {}
    with PeakMemory() as memory:
        start = time.perf_counter()
        done |= run_steps(pipeline, pipeline.store.obtain, until="tokenization")
        seconds = time.perf_counter() - start
    chosen, rejected = SIDES["ours"]
    pairs = [
        _digest(row[chosen], row[rejected])
        for split in ("train", "eval")
        for row in _rows(open_pairs(done["tokenization"].path / split))
    ]
    return seconds, (memory.peak - memory.before) / 2**20, pairs


def _rows(dataset: Any) -> Iterable[dict[str, Any]]:
    return dataset if dataset is not None else ()


def _digest(chosen: list[int], rejected: list[int]) -> str:
    return hashlib.sha256(json.dumps([chosen, rejected]).encode()).hexdigest()


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
