"""Upstream artifacts for the tests of evaluation and registration: real ones in a real store.

The pairs are conversations of a few words; they are rendered and tokenized by the tiny tokenizer's
own template, as the stages upstream do it.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Artifact, Step, Store, Workspace
from tasks.evaluation.tables.scores import Scores, numbered

COLORS = ("blue", "green", "say so", "the sky is what", "or color", "They is")


def conversations(n: int) -> list[dict[str, Any]]:
    """`n` pairs of two sources, of different lengths, some with equal sides' lengths."""
    rows = []
    for i in range(n):
        prompt = [{"role": "user", "content": f"What color is the sky {i}?" + " so" * (i % 7)}]
        answers = [f"It is {COLORS[(i * k) % 6]}." + " the" * ((i * k) % 5) for k in (5, 7)]
        rows.append(
            {
                "pair_id": f"{i:032x}",
                "source": "skies" if i % 3 else "others",
                "prompt": prompt,
                "chosen": [{"role": "assistant", "content": answers[0]}],
                "rejected": [{"role": "assistant", "content": answers[1] + " Or not."}],
            }
        )
    return rows


def write_arrow(path: Path, rows: Sequence[dict[str, Any]], batch: int = 7) -> None:
    """An Arrow stream as tokenization writes it; `margin` only where a row has one."""
    columns = {
        "pair_id": pa.array([r["pair_id"] for r in rows], pa.string()),
        "source": pa.array([r["source"] for r in rows], pa.string()),
        "chosen_input_ids": pa.array([r["chosen_ids"] for r in rows], pa.list_(pa.int32())),
        "rejected_input_ids": pa.array([r["rejected_ids"] for r in rows], pa.list_(pa.int32())),
        "shared_prefix_length": pa.array([r.get("shared", 0) for r in rows], pa.int32()),
        "weight": pa.array([1.0] * len(rows), pa.float32()),
    }
    if any("margin" in r for r in rows):
        columns["margin"] = pa.array([r.get("margin") for r in rows], pa.float32())
    if any("preference" in r for r in rows):
        columns["preference"] = pa.array([r.get("preference", 1.0) for r in rows], pa.float32())
    if any("comparison" in r for r in rows):
        columns["comparison"] = pa.array([r.get("comparison") for r in rows], pa.string())
    table = pa.table(columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch)


def random_pairs(n: int, seed: int = 0, longest: int = 40) -> list[dict[str, Any]]:
    """Pairs of random token ids, 1 to `longest` tokens on each side."""
    draw = np.random.default_rng(seed)

    def ids() -> list[int]:
        return draw.integers(5, 200, draw.integers(1, longest + 1)).tolist()

    return [
        {
            "pair_id": f"{i:032x}",
            "source": "ab"[i % 2],
            "chosen_ids": ids(),
            "rejected_ids": ids(),
        }
        for i in range(n)
    ]


def write_reward_model(base: Path, destination: Path, seed: int, spread: float = 20) -> None:
    """A reward model directory whose head has been drawn from `seed`, as training leaves one;
    rewards lie `spread` times as far apart as a new head's."""
    from transformers import AutoTokenizer

    from tasks.training import load_reward_model
    from tasks.training.model.padding import fit_tokenizer

    model = load_reward_model(base, seed=seed).model
    model.score.weight.data.mul_(spread)
    tokenizer = AutoTokenizer.from_pretrained(base)
    fit_tokenizer(model, tokenizer)
    model.save_pretrained(destination)
    tokenizer.save_pretrained(destination)


def stored(
    store: Store,
    stage: str,
    source: Path,
    inputs: dict[str, Artifact] | None = None,
    report: dict[str, Any] | None = None,
    **params: Any,
) -> Artifact:
    """An artifact that holds a copy of a directory."""

    def build(workspace: Workspace) -> None:
        shutil.copytree(source, workspace.path, dirs_exist_ok=True)
        workspace.report.update(report or {})

    shelf = 1 + ("ingestion", "conversion", "templating", "tokenization", "training").index(stage)
    return store.obtain(Step(stage, 1, f"{shelf}_{stage}", params, inputs or {}, build))


def write_conversion(directory: Path, rows: Sequence[dict[str, Any]]) -> None:
    """`pairs/00000.parquet` as conversion writes it: the rows in both splits, as `upstream` has
    them tokenized in both."""
    (directory / "pairs").mkdir(parents=True)
    fixed = {"format": "conversational", "tools": None, "chat_template_kwargs": None}
    fixed |= {"margin": None, "weight": 1.0, "preference": 1.0, "comparison": None}
    texts = [
        fixed
        | {"file": "sky.jsonl", "row": i + 1, "group": f"{r['prompt']}"}
        | r
        | {
            name: None if r[name] is None else json.dumps(r[name])
            for name in ("prompt", "chosen", "rejected")
        }
        for i, r in enumerate(rows)
    ]
    both = [t | {"split": split} for split in ("train", "eval") for t in texts]
    pq.write_table(pa.Table.from_pylist(both), directory / "pairs" / "00000.parquet")


def write_tokenization(directory: Path, rows: Sequence[dict[str, Any]], model: Path) -> None:
    """`eval/` and `train/` of these conversations, by the tokenizer of a model directory."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)

    def ids(row: dict[str, Any], side: str) -> list[int]:
        text = tokenizer.apply_chat_template([*row["prompt"], *row[side]], tokenize=False)
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    encoded = [r | {f"{side}_ids": ids(r, side) for side in ("chosen", "rejected")} for r in rows]
    for split in ("train", "eval"):
        write_arrow(directory / split / "00000.arrow", encoded)


def upstream(
    store: Store, scratch: Path, base: Path, seed: int, pairs: int = 20
) -> tuple[Artifact, Artifact]:
    """A trained model and the tokenized pairs, with conversion and templating behind them."""
    return everything(store, scratch, base, seed, conversations(pairs))[:2]


def everything(
    store: Store, scratch: Path, base: Path, seed: int, rows: Sequence[dict[str, Any]]
) -> tuple[Artifact, Artifact, Artifact]:
    """A trained model, the tokenized pairs, and the pairs of conversion."""
    scratch.mkdir(parents=True)
    write_conversion(scratch / "conversion", rows)
    (scratch / "templating").mkdir()
    (scratch / "templating" / "note.txt").write_text("rendered")
    write_tokenization(scratch / "tokenization", rows, base)
    write_reward_model(base, scratch / "training" / "model", seed)
    history = [{"global_step": s, "loss": 0.7 - s / 100, "epoch": s / 20} for s in (10, 20)]
    (scratch / "training" / "metrics.jsonl").write_text("\n".join(map(json.dumps, history)) + "\n")
    conversion = stored(store, "conversion", scratch / "conversion")
    templating = stored(store, "templating", scratch / "templating", {"conversion": conversion})
    tokenization = stored(
        store, "tokenization", scratch / "tokenization", {"templating": templating}
    )
    training = stored(
        store, "training", scratch / "training", {"tokenization": tokenization}, seed=seed
    )
    return training, tokenization, conversion


def made_scores(
    margins: Sequence[float],
    *,
    groups: Sequence[str] | None = None,
    tokens: Sequence[tuple[int, int]] | None = None,
    preferences: Sequence[float] | None = None,
    rewards: Sequence[tuple[float, float]] | None = None,
    answers: Sequence[tuple[str, str]] | None = None,
    sources: Sequence[str] | None = None,
    pair_margins: Sequence[float] | None = None,
    shared: int = 2,
) -> Scores:
    """Scores of pairs whose columns are as given, and otherwise dull: every pair its own prompt."""
    n = len(margins)
    chosen, rejected = zip(*(rewards or [(m, 0.0) for m in margins]), strict=True)
    lengths = tokens or [(5, 5)] * n
    names = answers or [(f"c{i}", f"r{i}") for i in range(n)]
    return Scores(
        pair_id=np.array([f"{i:04d}" for i in range(n)]),
        source=np.array(sources or ["a"] * n),
        group=numbered(groups or [f"g{i}" for i in range(n)]),
        preference=np.array(preferences or [1.0] * n),
        chosen=np.array(chosen, np.float64),
        rejected=np.array(rejected, np.float64),
        margin=np.array(margins, np.float64),
        pair_margin=np.array(pair_margins or [0.0] * n),
        chosen_tokens=np.array([a for a, _ in lengths]),
        rejected_tokens=np.array([b for _, b in lengths]),
        shared_tokens=np.full(n, shared),
        chosen_id=np.array([a for a, _ in names]),
        rejected_id=np.array([b for _, b in names]),
    )
