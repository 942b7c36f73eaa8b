"""What the benchmarks run on: real conversations, random pairs of given lengths, a random model.

"hh" is hh-rlhf's harmless test set, "general" 300 pairs of general instructions (parts of
Capybara, Orca and UltraFeedback preferences): real texts, taken through the pipeline's own stages
up to tokenization. The model is Qwen3-shaped with 27 million parameters and random weights, its
tokenizer is trained on hh. Other kinds have random ids and lengths that are drawn like those of
real pairs; "ranked" and "ranked_hh" are lists of four answers to one prompt.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.artifact import Artifact

ROOT = Path(__file__).resolve().parents[2]
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
LENGTHS = {
    # name: (median prompt, its spread, median answer, its spread) of log-normal lengths in tokens
    "uf": (103, 0.94, 238, 1.27),  # as the pairs of "general" have them
    "turns": (600, 0.3, 60, 0.2),
    "hh": (100, 0.99, 32, 0.86),  # as those of "hh"
}
VOCABULARY = 20_000
"""Random ids are below this: the tokenizer that is trained on hh has some 24,000."""
RANKED = {"ranked": "uf", "ranked_hh": "hh"}
"""Kinds of ranked lists, and whose lengths they have."""
PAIRS_OF_FOUR = 6
"""Of one such list."""

Row = dict[str, Any]
Ids = npt.NDArray[np.int32]
Pairs = dict[str, list[Any]]


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


def random_pairs(kind: str, count: int, max_length: int, seed: int = 0) -> Pairs:
    """Pairs of random ids whose prompts and answers are as long as those of `LENGTHS[kind]`."""
    rng = np.random.default_rng(seed)
    both = [_answered(rng, kind, 2, max_length) for _ in range(count)]
    return {
        "chosen_input_ids": [ids[0] for ids in both],
        "rejected_input_ids": [ids[1] for ids in both],
    }


def ranked_pairs(
    count: int, max_length: int, kind: str = "uf", answers: int = 4, seed: int = 0
) -> Pairs:
    """All pairs of `answers` ranked answers to one prompt, list after list.

    `count` is a multiple of the pairs of one list; `comparison` names the list of every pair.
    """
    rng = np.random.default_rng(seed)
    per_list = answers * (answers - 1) // 2
    pairs: Pairs = {"chosen_input_ids": [], "rejected_input_ids": [], "comparison": []}
    for number in range(count // per_list):
        ids = _answered(rng, kind, answers, max_length)
        for better in range(answers):
            for worse in range(better + 1, answers):
                pairs["chosen_input_ids"].append(ids[better])
                pairs["rejected_input_ids"].append(ids[worse])
                pairs["comparison"].append(str(number))
    return pairs


def _answered(rng: np.random.Generator, kind: str, answers: int, most: int) -> list[list[int]]:
    """One random prompt with each of its answers, drawn anew until all of them fit."""
    prompt, prompt_spread, answer, answer_spread = LENGTHS[kind]
    while True:
        before = max(4, int(rng.lognormal(np.log(prompt), prompt_spread)))
        own = np.maximum(4, rng.lognormal(np.log(answer), answer_spread, answers).astype(int))
        if before + own.max() <= most:
            shared = rng.integers(10, VOCABULARY, before)
            return [np.concatenate([shared, rng.integers(10, VOCABULARY, n)]).tolist() for n in own]
