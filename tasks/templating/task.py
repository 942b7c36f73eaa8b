"""Templating: every pair as the two exact texts that the model reads.

conversion  pairs/NNNNN.parquet  ->  pairs/NNNNN.parquet  (pair_id, ..., chosen, rejected)
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
from tasks.conversion.tolerance import check_bad_fraction, first_examples, merged
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, shown
from tasks.model import BaseModel
from tasks.templating.delimiters import delimiters_in
from tasks.templating.limits import MOST_TIMEOUTS
from tasks.templating.params import TemplatingParams
from tasks.templating.renderer import Renderer
from tasks.templating.template import load_tokenizer, template_source
from tasks.templating.template_faults import is_prefix_stable, undefined_names

STAGE = "templating"
SHELF = "3_templating"
VERSION = 3
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
        ("preference", pa.float64()),
        ("comparison", pa.string()),
    ]
)

OPTIONAL = {"margin": None, "preference": 1.0, "comparison": None}
"""Columns that most data leave as they are by default, and that default: the report counts others,
and tokenization writes the column only where there are any."""


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
    strict = params.delimiters_in_text == "quarantine"

    def work(shard: Path, ledger: Ledger, quarantine: Quarantine) -> dict[str, Any]:
        given: Counter[str] = Counter()
        delimiters: Counter[str] = Counter()
        with (
            workspace.writing(f"pairs/{shard.name}") as path,
            pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer,
        ):
            for batch in pq.ParquetFile(shard).iter_batches(BATCH_ROWS):
                taken = _without_delimiters(
                    batch.to_pylist(), strict, delimiters, ledger, quarantine
                )
                rows = list(_rendered(taken, renderer, ledger, quarantine))
                given.update(
                    name for row in rows for name in OPTIONAL if row[name] != OPTIONAL[name]
                )
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
        counts = {name: given[name] for name in OPTIONAL}
        return counts | {"delimiters": delimiters, "examples": first_examples(quarantine)}

    numbers = build_shards(workspace, STAGE, pair_shards(conversion), work)
    _check(workspace, params, numbers)
    if tokenizer.chat_template is not None:
        with workspace.writing(CHAT_TEMPLATE_FILE) as path:
            path.write_text(tokenizer.chat_template, "utf-8")
        workspace.report["undefined_in_template"] = undefined_names(tokenizer)
        workspace.report["prefix_stable"] = is_prefix_stable(tokenizer)
    workspace.report["delimiters_in_text"] = _total(n["delimiters"] for n in numbers)
    workspace.report.update({f"with_{name}": sum(n[name] for n in numbers) for name in OPTIONAL})


def _check(workspace: Workspace, params: TemplatingParams, numbers: list[dict[str, Any]]) -> None:
    """Raises DataError when too many rows of a source cannot be used with the template."""
    ledger = Ledger.from_json(workspace.report["ledger"])
    examples = merged([n["examples"] for n in numbers])
    advice = "Correct the source, or choose another template with templating.chat_template_path"
    key = "templating.max_bad_fraction"
    check_bad_fraction(ledger, params.max_bad_fraction, key, examples, advice)


def _total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items()))


def _without_delimiters(
    rows: list[dict[str, Any]],
    strict: bool,
    seen: Counter[str],
    ledger: Ledger,
    quarantine: Quarantine,
) -> Iterator[dict[str, Any]]:
    """The rows, those with other templates' delimiters counted, or left out where `strict`."""
    for row in rows:
        found = delimiters_in(row["prompt"], row["chosen"], row["rejected"])
        seen.update(found)
        if not found or not strict:
            yield row
            continue
        message = (
            f"the text holds {', '.join(map(shown, sorted(found)))}, which templates mark turns "
            "with; mend the row, or set templating.delimiters_in_text: count"
        )
        ledger.count_in(row["source"])
        _drop(row, Unusable("delimiter_in_text", "prompt", message), ledger, quarantine)


def _drop(row: dict[str, Any], bad: Unusable, ledger: Ledger, quarantine: Quarantine) -> None:
    ledger.drop(row["source"], bad.reason)
    raw = json.dumps({n: row[n] for n in ("prompt", "chosen", "rejected")})
    quarantine.add(row["source"], row["file"], row["row"], bad.reason, bad.field, bad.message, raw)
    timeouts = sum(a.dropped["template_timeout"] for a in ledger.accounts.values())
    if timeouts > MOST_TIMEOUTS:
        raise DataError(
            f"templating: {timeouts} rows were too much for the chat template, the last "
            f"{row['file']} row {row['row']}: {bad.message}"
        )


def _rendered(
    rows: Iterable[dict[str, Any]], renderer: Renderer, ledger: Ledger, quarantine: Quarantine
) -> Iterator[dict[str, Any]]:
    for row in rows:
        source = row["source"]
        ledger.count_in(source)
        try:
            chosen, rejected = renderer.sides(row)
        except Unusable as bad:
            _drop(row, bad, ledger, quarantine)
            continue
        ledger.count_out(source)
        yield {name: row.get(name) for name in SCHEMA.names} | {
            "chosen": chosen.text,
            "rejected": rejected.text,
            "chosen_literals": chosen.literals or None,
            "rejected_literals": rejected.literals or None,
        }
