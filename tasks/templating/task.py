"""Templating: every pair as the two exact texts that the model reads.

conversion  pairs/NNNNN.parquet  ->  pairs/NNNNN.parquet  (pair_id, ..., chosen, rejected)
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import (
    Artifact,
    Ledger,
    Quarantine,
    Step,
    Workspace,
    build_shards,
    digest_json,
    file_digest,
)
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError
from tasks.model import BaseModel
from tasks.templating.params import TemplatingParams
from tasks.templating.renderer import Renderer
from tasks.templating.template import load_tokenizer, template_source

STAGE = "templating"
SHELF = "3_templating"
VERSION = 2
NAMED_TEMPLATES = "additional_chat_templates"
CHAT_TEMPLATE_FILE = "chat_template.jinja"
BATCH_ROWS = 1024

SCHEMA = pa.schema(
    [
        ("pair_id", pa.string()),
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("split", pa.string()),
        ("format", pa.string()),
        ("chosen", pa.string()),
        ("rejected", pa.string()),
        ("chosen_literals", pa.list_(pa.int32())),
        ("rejected_literals", pa.list_(pa.int32())),
        ("margin", pa.float64()),
        ("weight", pa.float64()),
    ]
)


def step(
    params: TemplatingParams, conversion: Artifact, model: BaseModel, model_artifact: Artifact
) -> Step:
    """The step that renders the pairs of `conversion` with the model's tokenizer."""

    def build(workspace: Workspace) -> None:
        _build(workspace, params, conversion, model)

    template = template_source(params)
    named = sorted((model.path / NAMED_TEMPLATES).glob("*.jinja"))
    return Step(
        STAGE,
        VERSION,
        SHELF,
        params.model_dump(mode="json") | {"chat_template_path": template and digest_json(template)},
        {"conversion": conversion},
        build,
        libraries=("jinja2", "transformers"),
        files={"tokenizer": model.tokenizer_digest}
        | {f"{NAMED_TEMPLATES}/{path.name}": file_digest(path) for path in named},
        uses={"model": model_artifact},
    )


def pair_shards(artifact: Artifact) -> list[Path]:
    """The Parquet files of a stage of pairs, in order."""
    return sorted((artifact.path / "pairs").glob("*.parquet"))


def _build(
    workspace: Workspace, params: TemplatingParams, conversion: Artifact, model: BaseModel
) -> None:
    tokenizer = load_tokenizer(model.path, params)
    if tokenizer.eos_token is None:
        raise DataError(
            f"the tokenizer of {model.path} has no EOS token, but texts are closed by one and the "
            "reward is read at their last token; set eos_token in its tokenizer_config.json"
        )
    if params.special_tokens_in_text == "encode" and not tokenizer.is_fast:
        raise DataError(
            f"templating.special_tokens_in_text: encode needs a tokenizer.json, and {model.path} "
            "has none; save the tokenizer as a fast one, or choose quarantine"
        )
    renderer = Renderer(tokenizer, params.special_tokens_in_text)

    def work(shard: Path, ledger: Ledger, quarantine: Quarantine) -> dict[str, Any]:
        with_margin = 0
        with (
            workspace.writing(f"pairs/{shard.name}") as path,
            pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer,
        ):
            for batch in pq.ParquetFile(shard).iter_batches(BATCH_ROWS):
                rows = list(_rendered(batch.to_pylist(), renderer, ledger, quarantine))
                with_margin += sum(row["margin"] is not None for row in rows)
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
        return {"with_margin": with_margin}

    numbers = build_shards(workspace, STAGE, pair_shards(conversion), work)
    if tokenizer.chat_template is not None:
        with workspace.writing(CHAT_TEMPLATE_FILE) as path:
            path.write_text(tokenizer.chat_template, "utf-8")
    workspace.report["with_margin"] = sum(n["with_margin"] for n in numbers)


def _rendered(
    rows: list[dict[str, Any]], renderer: Renderer, ledger: Ledger, quarantine: Quarantine
) -> Iterator[dict[str, Any]]:
    for row in rows:
        source = row["source"]
        ledger.count_in(source)
        try:
            chosen, rejected = renderer.sides(row)
        except Unusable as bad:
            ledger.drop(source, bad.reason)
            raw = json.dumps({n: row[n] for n in ("prompt", "chosen", "rejected")})
            quarantine.add(source, row["file"], row["row"], bad.reason, bad.field, bad.message, raw)
            continue
        ledger.count_out(source)
        yield {name: row.get(name) for name in SCHEMA.names} | {
            "chosen": chosen.text,
            "rejected": rejected.text,
            "chosen_literals": chosen.literals or None,
            "rejected_literals": rejected.literals or None,
        }
