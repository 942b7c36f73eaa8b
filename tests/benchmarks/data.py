"""What the benchmarks run on: real conversations, or random pairs, and a random model.

"hh" is hh-rlhf's harmless test set, "general" 300 pairs of general instructions (parts of
Capybara, Orca and UltraFeedback preferences): real texts, taken through the pipeline's own stages
up to tokenization. The model is Qwen3-shaped with 27 million parameters and random weights, its
tokenizer is trained on hh. Other kinds are those of `random_pairs`.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.artifact import Artifact
from tests.benchmarks.harness import ROOT
from tests.benchmarks.random_pairs import RANKED, Pairs, random_pairs, ranked_pairs

DATA = ROOT.parent / "shared" / "data"
HH = DATA / "hh_rlhf_harmless_test" / "test.jsonl.gz"
SOURCES = {
    "hh": (HH, "hh_rlhf"),
    "general": (DATA / "llamafactory_dpo_en" / "dpo_en_demo.json.gz", "sharegpt_ranking"),
}
MODEL = {
    "architecture": "qwen3",
    "vocab_size": 32000,
    "hidden_size": 384,
    "intermediate_size": 1152,
    "num_hidden_layers": 8,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
}
PEERS_NAMES = {"chosen_input_ids": "chosen_ids", "rejected_input_ids": "rejected_ids"}
"""What the peer calls the columns of token ids."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    """Directories that the stages left."""

    model: Path
    tokenized: Path
    conversion: Path


def prepared(root: Path, max_length: int, source: str = "hh") -> Prepared:
    """Real pairs, taken through all stages up to tokenization; cached below `root`."""
    from flows.params import load
    from flows.pipeline import Pipeline, run_steps
    from tasks.model import base_model

    root.mkdir(parents=True, exist_ok=True)
    path, layout = SOURCES[source]
    model: dict[str, Any] = {"scratch": MODEL}
    if source != "hh":
        model = {"path": str(prepared(root, max_length).model)}
    params = {
        "model": model,
        "ingestion": {"sources": [{"name": source, "path": str(path), "layout": layout}]},
        "conversion": {"eval_fraction": 0.1},
        "tokenization": {"max_length": max_length},
    }
    file = root / f"{source}.yaml"
    file.write_text(json.dumps(params))
    pipeline = Pipeline(load(file), root)
    done: dict[str, Artifact] = dict(
        run_steps(pipeline, pipeline.store.obtain, until="tokenization")
    )
    return Prepared(
        base_model(done["model"]).path, done["tokenization"].path, done["conversion"].path
    )


def _whole(pair: Row) -> Row:
    return {side: pair["prompt"] + pair[side] for side in ("chosen", "rejected")}


def _scored(pair: Row) -> Row:
    return _whole(pair) | {"score_chosen": 7.5, "score_rejected": 4.0}


def _texts(pair: Row) -> Row:
    asked = "\n\n".join(message["content"] for message in pair["prompt"])
    return {"prompt": asked} | {side: pair[side][0]["content"] for side in ("chosen", "rejected")}


SHAPES: dict[str, Callable[[Row], Row]] = {
    "explicit": dict,
    "implicit": _whole,
    "scored": _scored,
    "texts": _texts,
}
"""How rows hold a pair: the prompt in a column, at the beginning of both answers, so and with
scores beside it, or all as text."""


def conversations_file(root: Path, rows: int, shape: str = "explicit") -> Path:
    """JSONL with `rows` pairs in one of `SHAPES`: the real conversations, repeated with a mark in
    the prompt."""
    from tasks.conversion.layouts.hh_rlhf import pairs
    from tasks.conversion.unusable import Unusable

    path = root / f"{shape}-{rows}.jsonl"
    if path.exists():
        return path
    with gzip.open(HH, "rt", encoding="utf-8") as lines:
        raw = [json.loads(line) for line in lines]
    found: list[dict[str, Any]] = []
    for row in raw:
        try:
            found += [
                {"prompt": p.prompt, "chosen": p.chosen, "rejected": p.rejected} for p in pairs(row)
            ]
        except Unusable:
            continue
    found = [pair for pair in found if all(pair[s][0]["content"] for s in ("chosen", "rejected"))]
    with path.open("w", encoding="utf-8") as file:
        for index in range(rows):
            pair, copy = found[index % len(found)], index // len(found)
            first, *others = pair["prompt"]
            marked = {**first, "content": first["content"] + (f" ({copy})" if copy else "")}
            row = SHAPES[shape](pair | {"prompt": [marked, *others]})
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


def some_pairs(kind: str, root: Path, count: int, max_length: int) -> Pairs:
    """`count` pairs of a kind, in a random order that is the same for every contestant."""
    if kind in RANKED:
        return ranked_pairs(count, max_length, RANKED[kind])
    if kind not in SOURCES:
        return random_pairs(kind, count, max_length)
    from tasks.training.batches.pairs import open_pairs

    rows: Any = open_pairs(prepared(root, max_length, kind).tokenized / "train")
    order = np.random.default_rng(0).permutation(len(rows))[:count].tolist()
    return {
        name: [rows[name][place] for place in order]
        for name in ("chosen_input_ids", "rejected_input_ids")
    }


def named_for_the_peer(pairs: Pairs) -> Pairs:
    """The columns of token ids under the peer's names, without the others."""
    return {theirs: pairs[ours] for ours, theirs in PEERS_NAMES.items()}


def computed_tokens(pairs: Pairs, batch: int, padded: bool) -> int:
    """Rows that the layers compute: rectangles of the longest, or every shared token once."""
    sides = pairs["chosen_input_ids"], pairs["rejected_input_ids"]
    total = 0
    for start in range(0, len(sides[0]), batch):
        ids = [tuple(row) for side in sides for row in side[start : start + batch]]
        if padded:
            total += len(ids) * max(map(len, ids))
        else:
            total += len({row[: end + 1] for row in set(ids) for end in range(len(row))})
    return total
