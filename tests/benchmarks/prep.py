"""Preparation: conversational JSONL -> tokenized pairs, filtered by length, in Arrow files.

The peer reads with `load_dataset("json")` and prepares as its trainer does; ours runs its stages
from ingestion to tokenization: validated, hashed, split, rendered, probed, in durable artifacts.
"script" is our trainer in the peer's place: it reads as the peer does, and leaves no artifacts.
Both have prepared a few rows before: imports and the loading of the tokenizer are in neither
figure, nor the imports of the processes that help ours. The ids of both are compared.

Told as JSON: who ("peer", "ours", "ours_tokenizers", "script"), rows, their shape, max_length,
num_proc, root, the model whose tokenizer is used, if not one with the tokenizer that is trained
here, and the template: "chatml", the model's own short one, or one that the peer comes with, such
as "qwen3".
"""

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from tests.benchmarks.data import PEERS_NAMES, conversations_file, prepared
from tests.benchmarks.helpers import begin_helpers
from tests.benchmarks.process_tree import PeakTreeMemory, timed

MODELS_OWN = "chatml"
WARM_ROWS = 100
SIDES = {"peer": tuple(PEERS_NAMES.values()), "ours": tuple(PEERS_NAMES)}


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Seconds, rows per second, memory above that after the few rows, and the digest of all ids; of
    ours also the seconds of every stage."""
    root = Path(told["root"])
    model = Path(told.get("model") or prepared(root, told["max_length"]).model)
    shape = told.get("shape", "explicit")
    source = conversations_file(root, told["rows"], shape)
    work = root / f"prep-{told['who']}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    prepare = {"peer": peer, "script": script}.get(told["who"], ours)
    prepare(told, conversations_file(root, WARM_ROWS, shape), model, work / "warm")
    seconds, megabytes, pairs, stages = prepare(told, source, model, work)
    pairs = sorted(pairs)
    return {
        "rows_per_second": told["rows"] / seconds,
        "seconds": seconds,
        "memory_mb": megabytes,
        "pairs": len(pairs),
        "stages": stages,
        "ids": hashlib.sha256("".join(pairs).encode()).hexdigest(),
    }


def peer(
    told: dict[str, Any], source: Path, model: Path, work: Path
) -> tuple[float, float, list[str], dict[str, float]]:
    """The peer's way."""
    from trl import RewardConfig, RewardTrainer

    trainer: Any = object.__new__(RewardTrainer)
    return _by_trainer(trainer._prepare_dataset, RewardConfig, told, source, model, work)


def script(
    told: dict[str, Any], source: Path, model: Path, work: Path
) -> tuple[float, float, list[str], dict[str, float]]:
    """The way of a script with our trainer."""
    from tasks.training import RewardConfig
    from tasks.training.batches.pairs import prepare_dataset

    def prepare(rows: Any, tokenizer: Any, args: Any, name: str) -> Any:
        return prepare_dataset(rows, args, tokenizer, name)

    return _by_trainer(prepare, RewardConfig, told, source, model, work)


def _by_trainer(
    prepare: Callable[[Any, Any, Any, str], Any],
    config: Callable[..., Any],
    told: dict[str, Any],
    source: Path,
    model: Path,
    work: Path,
) -> tuple[float, float, list[str], dict[str, float]]:
    from datasets import load_dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    if template := template_file(told):
        tokenizer.chat_template = template.read_text("utf-8")
    args = config(
        output_dir=str(work),
        max_length=told["max_length"],
        dataset_num_proc=told.get("num_proc"),
        use_cpu=True,
        bf16=False,
        report_to=[],
    )
    with PeakTreeMemory() as memory:
        start = time.perf_counter()
        cache = str(work / "cache")
        rows: Any = load_dataset("json", data_files=str(source), split="train", cache_dir=cache)
        done = prepare(rows, tokenizer, args, "train")
        seconds = time.perf_counter() - start
    sides = SIDES["peer" if told["who"] == "peer" else "ours"]
    pairs = (_digest(*(row[side] for side in sides)) for row in done)
    return seconds, (memory.peak - memory.before) / 2**20, list(pairs), {}


def ours(
    told: dict[str, Any], source: Path, model: Path, work: Path
) -> tuple[float, float, list[str], dict[str, float]]:
    """The stages of the pipeline."""
    from flows.pipeline import run_steps

    pipeline = pipeline_of(told, source, model, work)
    with PeakTreeMemory() as memory:
        begin_helpers()
        start = time.perf_counter()
        done, stages = timed(run_steps(pipeline, pipeline.store.obtain, until="tokenization"))
        seconds = time.perf_counter() - start
    from tasks.training.batches.pairs import open_pairs  # imports Arrow, which a stage prepares

    chosen, rejected = SIDES["ours"]
    pairs = [
        _digest(row[chosen], row[rejected])
        for split in ("train", "eval")
        for row in _rows(open_pairs(done["tokenization"].path / split))
    ]
    return seconds, (memory.peak - memory.before) / 2**20, pairs, stages


def pipeline_of(told: dict[str, Any], source: Path, model: Path, work: Path) -> Any:
    """The pipeline whose stages up to tokenization are measured, with its artifacts in `work`."""
    from flows.params import load
    from flows.pipeline import Pipeline

    params: dict[str, Any] = {
        "model": {"path": str(model)},
        "ingestion": {"sources": [{"name": "conv", "path": str(source), "layout": "trl"}]},
        "conversion": {"eval_fraction": 0.05, "duplicates": "keep"},
        "tokenization": {"max_length": told["max_length"]},
    }
    if template := template_file(told):
        params["templating"] = {"chat_template_path": str(template)}
    if told["who"] == "ours_tokenizers":
        params["tokenization"]["encoder"] = "tokenizers"
    work.mkdir(parents=True, exist_ok=True)
    file = work / "prep.yaml"
    file.write_text(json.dumps(params))
    return Pipeline(load(file), work)


def template_file(told: dict[str, Any]) -> Path | None:
    """The chat template, where it is another one than the model's."""
    name = told.get("template", MODELS_OWN)
    if name == MODELS_OWN:
        return None
    return Path(str(distribution("trl").locate_file(f"trl/chat_templates/{name}.jinja")))


def _rows(dataset: Any) -> Iterable[dict[str, Any]]:
    return dataset if dataset is not None else ()


def _digest(chosen: list[int], rejected: list[int]) -> str:
    return hashlib.sha256(json.dumps([chosen, rejected]).encode()).hexdigest()


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
