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
VERSION = 3
SPLITS = ("train", "eval")
TEXTS = ("chosen", "rejected")
SIDES = ("chosen_input_ids", "rejected_input_ids")
TOKENIZER_DIRECTORY = "tokenizer"
RENDERING_FILE = "rendering.json"
"""The settings of templating that whoever serves the model has to know."""
RENDERING_FIELDS = ("special_tokens_in_text", "date")
BATCH_ROWS = 1024

FIELDS = [
    ("pair_id", pa.string()),
    ("source", pa.string()),
    ("chosen_input_ids", pa.list_(pa.int32())),
    ("rejected_input_ids", pa.list_(pa.int32())),
    ("shared_prefix_length", pa.int32()),
    ("weight", pa.float32()),
]

OPTIONAL_FIELDS = [
    ("margin", pa.float32()),
    ("preference", pa.float32()),
    ("comparison", pa.string()),
]
"""Present only where any pair says something else than the default."""


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
    given = [field for field in OPTIONAL_FIELDS if templating.report[f"with_{field[0]}"]]
    schema = pa.schema([*FIELDS, *given])
    lengths: list[int] = []

    def work(shard: Path, ledger: Ledger, quarantine: Quarantine) -> dict[str, Any]:
        batches: dict[str, list[pa.RecordBatch]] = {split: [] for split in SPLITS}
        counts = dict.fromkeys(SPLITS, 0) | {"tokens": 0, "longest": 0}
        for batch in pq.ParquetFile(shard).iter_batches(BATCH_ROWS):
            for split, rows in _encoded(
                batch, encoder, params, ledger, quarantine, lengths
            ).items():
                if rows:
                    batches[split].append(pa.RecordBatch.from_pylist(rows, schema=schema))
                    sizes = [len(r[s]) for r in rows for s in SIDES]
                    counts[split] += len(rows)
                    counts["tokens"] += sum(sizes)
                    counts["longest"] = max(counts["longest"], *sizes)
        for split in SPLITS:
            if batches[split]:
                _write(workspace, f"{split}/{shard.stem}.arrow", schema, batches[split])
        return counts

    try:
        numbers = build_shards(workspace, STAGE, pair_shards(templating), work)
    except DataError:
        if lengths and min(lengths) > (params.max_length or 0):
            raise _all_too_long(lengths, params) from None
        raise
    totals = {n: sum(c[n] for c in numbers) for n in (*SPLITS, "tokens")}
    workspace.report.update(totals | {"longest": max(c["longest"] for c in numbers)})
    if totals["train"] == 0:
        raise DataError(
            f"{STAGE}: no training pair is left; ledger {workspace.report['ledger']}. Raise "
            f"tokenization.max_length (now {params.max_length}) or add data"
        )


def _all_too_long(lengths: list[int], params: TokenizationParams) -> DataError:
    """The error of data none of which fits, with what would."""
    p50, p90 = (int(x) for x in np.percentile(lengths, (50, 90), method="nearest"))
    return DataError(
        f"{STAGE}: 0 of {len(lengths):,} pairs have at most tokenization.max_length "
        f"{params.max_length} tokens on both sides (shortest {min(lengths)}, p50={p50}, "
        f"p90={p90}): raise max_length"
    )


def _save_tokenizer(workspace: Workspace, templating: Artifact, model: BaseModel) -> Any:
    """The tokenizer as it is used here, with the effective chat template, kept for the model."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model.path)
    template = templating.path / CHAT_TEMPLATE_FILE
    if template.exists():
        tokenizer.chat_template = template.read_text("utf-8")
    tokenizer.save_pretrained(workspace.path / TOKENIZER_DIRECTORY)
    said = templating.record["ingredients"]["params"]
    workspace.write_json(RENDERING_FILE, {name: said.get(name) for name in RENDERING_FIELDS})
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
    lengths: list[int],
) -> dict[str, list[dict[str, Any]]]:
    """The rows of one batch that fit, by split; every other row in the ledger.

    The longer side of every pair is appended to `lengths`.
    """
    rows = batch.to_pylist()
    ids = _encode_rows(rows, encoder)
    kept: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for row, (chosen, rejected) in zip(rows, ids, strict=True):
        source = row["source"]
        ledger.count_in(source)
        lengths.append(max(len(chosen), len(rejected)))
        if params.max_length is not None and lengths[-1] > params.max_length:
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
            }
            | {name: row[name] for name, _ in OPTIONAL_FIELDS}
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
