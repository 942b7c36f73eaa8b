"""Tokenization: token ids of every pair that fits, as Arrow that training memory-maps.

templating  pairs/NNNNN.parquet  ->  train/NNNNN.arrow, eval/NNNNN.arrow, tokenizer/
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Artifact, Ledger, Quarantine, Step, Workspace, build_shards
from tasks.errors import DataError
from tasks.model import BaseModel
from tasks.templating.task import CHAT_TEMPLATE_FILE, pair_shards
from tasks.tokenization.encode import Encoder, Ids, shared_prefix_length
from tasks.tokenization.literal import literal_encoder
from tasks.tokenization.params import TokenizationParams

STAGE = "tokenization"
SHELF = "4_tokenization"
VERSION = 2
SPLITS = ("train", "eval")
TEXTS = ("chosen", "rejected")
SIDES = ("chosen_input_ids", "rejected_input_ids")
TOKENIZER_DIRECTORY = "tokenizer"
BATCH_ROWS = 1024

FIELDS = [
    ("pair_id", pa.string()),
    ("source", pa.string()),
    ("chosen_input_ids", pa.list_(pa.int32())),
    ("rejected_input_ids", pa.list_(pa.int32())),
    ("shared_prefix_length", pa.int32()),
    ("weight", pa.float32()),
]


def step(
    params: TokenizationParams, templating: Artifact, model: BaseModel, model_artifact: Artifact
) -> Step:
    """The step that tokenizes the texts of `templating` with the model's tokenizer."""

    def build(workspace: Workspace) -> None:
        _build(workspace, params, templating, model)

    return Step(
        STAGE,
        VERSION,
        SHELF,
        params,
        {"templating": templating},
        build,
        libraries=("tokenizers", "transformers"),
        files={"tokenizer": model.tokenizer_digest},
        uses={"model": model_artifact},
    )


def split_shards(artifact: Artifact, split: str) -> list[Path]:
    """The Arrow files of one split, in order; `datasets.Dataset.from_file` maps each."""
    return sorted((artifact.path / split).glob("*.arrow"))


def _build(
    workspace: Workspace, params: TokenizationParams, templating: Artifact, model: BaseModel
) -> None:
    tokenizer = _save_tokenizer(workspace, templating, model)
    encoder = Encoder(tokenizer)
    with_margin = templating.report["with_margin"] > 0
    fields = [*FIELDS, ("margin", pa.float32())] if with_margin else FIELDS
    schema = pa.schema(fields)

    def work(shard: Path, ledger: Ledger, quarantine: Quarantine) -> dict[str, Any]:
        batches: dict[str, list[pa.RecordBatch]] = {split: [] for split in SPLITS}
        counts = dict.fromkeys(SPLITS, 0) | {"tokens": 0, "longest": 0}
        for batch in pq.ParquetFile(shard).iter_batches(BATCH_ROWS):
            for split, rows in _encoded(batch, encoder, params, ledger, quarantine).items():
                if rows:
                    batches[split].append(pa.RecordBatch.from_pylist(rows, schema=schema))
                    lengths = [len(r[s]) for r in rows for s in SIDES]
                    counts[split] += len(rows)
                    counts["tokens"] += sum(lengths)
                    counts["longest"] = max(counts["longest"], *lengths)
        for split in SPLITS:
            if batches[split]:
                _write(workspace, f"{split}/{shard.stem}.arrow", schema, batches[split])
        return counts

    numbers = build_shards(workspace, STAGE, pair_shards(templating), work)
    totals = {n: sum(c[n] for c in numbers) for n in (*SPLITS, "tokens")}
    workspace.report.update(totals | {"longest": max(c["longest"] for c in numbers)})
    if totals["train"] == 0:
        raise DataError(
            f"{STAGE}: no training pair is left; ledger {workspace.report['ledger']}. Raise "
            f"tokenization.max_length (now {params.max_length}) or add data"
        )


def _save_tokenizer(workspace: Workspace, templating: Artifact, model: BaseModel) -> Any:
    """The tokenizer as it is used here, with the effective chat template, kept for the model."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model.path)
    template = templating.path / CHAT_TEMPLATE_FILE
    if template.exists():
        tokenizer.chat_template = template.read_text("utf-8")
    tokenizer.save_pretrained(workspace.path / TOKENIZER_DIRECTORY)
    return tokenizer


def _write(
    workspace: Workspace, name: str, schema: pa.Schema, batches: list[pa.RecordBatch]
) -> None:
    with workspace.writing(name) as path, pa.ipc.new_stream(path, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _encoded(
    batch: pa.RecordBatch,
    encoder: Encoder,
    params: TokenizationParams,
    ledger: Ledger,
    quarantine: Quarantine,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of one batch that fit, by split; every other row in the ledger."""
    rows = batch.to_pylist()
    ids = _encode_rows(rows, encoder)
    kept: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for row, (chosen, rejected) in zip(rows, ids, strict=True):
        source = row["source"]
        ledger.count_in(source)
        if params.max_length is not None and max(len(chosen), len(rejected)) > params.max_length:
            ledger.drop(source, "too_long")
            continue
        if np.array_equal(chosen, rejected):
            ledger.drop(source, "identical_tokens")
            message = "both sides have the same token ids; the tokenizer drops what differs"
            quarantine.add(
                source,
                row["file"],
                row["row"],
                "identical_tokens",
                "chosen",
                message,
                row["chosen"],
            )
            continue
        ledger.count_out(source)
        kept[row["split"]].append(
            {
                "pair_id": row["pair_id"],
                "source": source,
                "chosen_input_ids": chosen,
                "rejected_input_ids": rejected,
                "shared_prefix_length": shared_prefix_length(chosen, rejected),
                "weight": row["weight"],
                "margin": row["margin"],
            }
        )
    return kept


def _encode_rows(rows: list[dict[str, Any]], encoder: Encoder) -> list[tuple[Ids, Ids]]:
    """Both sides' ids of every row; texts get the tokenizer's special tokens, renderings none."""
    nothing = np.empty(0, np.int32)
    found: list[tuple[Ids, Ids]] = [(nothing, nothing)] * len(rows)
    for kind in ("standard", "conversational"):
        places = [i for i, row in enumerate(rows) if row["format"] == kind]
        texts = [rows[i][side] for i in places for side in TEXTS]
        literals = [rows[i][f"{side}_literals"] for i in places for side in TEXTS]
        ids = encoder(texts, add_special_tokens=kind == "standard")
        for n in (n for n, stretches in enumerate(literals) if stretches):
            ids[n] = literal_encoder(encoder.tokenizer)(
                texts[n], tuple(literals[n]), add_special_tokens=kind == "standard"
            )
        for n, place in enumerate(places):
            found[place] = (ids[2 * n], ids[2 * n + 1])
    return found
