"""Tokenization: token ids of every pair that fits, as Arrow that training memory-maps.

templating  texts/NNNNN.arrow  ->  train/NNNNN.arrow, eval/NNNNN.arrow, tokenizer/
"""

import logging
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.artifact import (
    Artifact,
    Ledger,
    Memo,
    Step,
    Workspace,
    build_shards,
    digest_json,
    end_workers,
    input_digests,
)
from tasks.artifact.durable import files_below, write_json
from tasks.errors import DataError
from tasks.model import BaseModel
from tasks.templating.template import CHAT_TEMPLATE_FILE
from tasks.templating.tokenizer.tokenizer_file import has_fastokens
from tasks.tokenization.concerns import losses
from tasks.tokenization.params import TokenizationParams
from tasks.tokenization.shards import RENDERING_FILE, TOKENIZER_DIRECTORY

logger = logging.getLogger(__name__)

STAGE = "tokenization"
SHELF = "4_tokenization"
VERSION = 8
RENDERING_FIELDS = ("special_tokens_in_text", "date")
"""The settings of templating that serving needs."""


def step(
    params: TokenizationParams, templating: Artifact, model: BaseModel, model_artifact: Artifact
) -> Step:
    """The step that tokenizes the texts of `templating` with the model's tokenizer."""

    def build(workspace: Workspace) -> None:
        _build(workspace, params, templating, model)

    may_be_fast = params.encoder != "tokenizers" and has_fastokens()
    return Step(
        STAGE,
        VERSION,
        SHELF,
        params,
        {"templating": templating},
        build,
        libraries=("tokenizers", "transformers", *(("fastokens",) if may_be_fast else ())),
        files={"tokenizer": model.tokenizer_digest},
        uses={"model": model_artifact},
    )


def _build(
    workspace: Workspace, params: TokenizationParams, templating: Artifact, model: BaseModel
) -> None:
    from tasks.conversion.preference.splits import SPLITS
    from tasks.templating.text_shards import TEXTS_DIRECTORY, text_shards
    from tasks.tokenization.shard import OPTIONAL_FIELDS, TokenizeShard, schema

    _save_tokenizer(workspace, templating, model)
    optional = [name for name in OPTIONAL_FIELDS if templating.report[f"with_{name}"]]
    work = TokenizeShard(workspace, params.encoder, params.max_length, schema(optional))
    shards = text_shards(templating)
    digests = input_digests(templating, TEXTS_DIRECTORY)
    try:
        numbers = build_shards(
            workspace,
            STAGE,
            shards,
            work,
            workers=params.workers,
            memo=Memo(workspace, digests, optional),
        )
    except DataError:
        if error := _all_too_long(workspace, shards, params):
            raise error from None
        raise
    end_workers()  # no later stage has shards
    totals = {n: sum(c[n] for c in numbers) for n in (*SPLITS, "tokens")}
    _write_rendering(workspace, templating, totals["train"], sum(c["text"] for c in numbers))
    workspace.report.update(totals | {"longest": max(c["longest"] for c in numbers)})
    workspace.report["encoders"] = _encoders(numbers)
    if totals["train"] == 0:
        raise DataError(
            f"{STAGE}: no training pair is left; ledger {workspace.report['ledger']}. Raise "
            f"tokenization.max_length (now {params.max_length}) or add data"
        )
    longer = [n for c in numbers for n in c["longer_sides"] if n > (params.max_length or n)]
    warnings = losses(Ledger.from_json(workspace.report["ledger"]), params.max_length, longer)
    workspace.report["warnings"] = warnings
    for warning in warnings:
        logger.warning("%s", warning)


def _encoders(numbers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For each encoder, its number of shards and why no faster one was used."""
    shards: Counter[str] = Counter()
    why: dict[str, str] = {}
    for name, reason in ((n, r) for shard in numbers for n, r in shard["encoders"].items()):
        shards[name] += 1
        why.setdefault(name, reason)
    return {name: {"shards": n, "why_no_faster": why[name]} for name, n in sorted(shards.items())}


def _all_too_long(
    workspace: Workspace, shards: Sequence[Path], params: TokenizationParams
) -> DataError | None:
    """The error if no pair of any shard fits, with the lengths of pairs; else None."""
    import numpy as np

    done = [unit for shard in shards if (unit := workspace.finished(shard.stem))]
    lengths = [n for unit in done for n in unit["numbers"]["longer_sides"]]
    most = params.max_length
    if len(done) < len(shards) or most is None or min(lengths, default=0) <= most:
        return None
    p50, p90 = (int(x) for x in np.percentile(lengths, (50, 90), method="nearest"))
    return DataError(
        f"{STAGE}: 0 of {len(lengths):,} pairs have at most tokenization.max_length "
        f"{most} tokens on both sides (shortest {min(lengths)}, p50={p50}, "
        f"p90={p90}): raise max_length"
    )


def _save_tokenizer(workspace: Workspace, templating: Artifact, model: BaseModel) -> None:
    """Saves the tokenizer with the effective chat template, or links it from an earlier artifact.

    Every attempt saves it anew, so it need not be durable before the artifact is committed.
    """
    from tasks.templating.tokenizer.saving import save

    directory = workspace.path / TOKENIZER_DIRECTORY
    template = templating.record["files"].get(CHAT_TEMPLATE_FILE, {}).get("sha256")
    # The model's own tokenizer is in the key of every unit.
    memo = Memo(workspace, {directory.name: digest_json(template)})
    if directory.exists():
        shutil.rmtree(directory)  # linked files are not written to
    if memo.take(directory.name) is None:
        save(model.path, templating.path / CHAT_TEMPLATE_FILE, directory)
        saved = [path.relative_to(workspace.path).as_posix() for path in files_below(directory)]
        memo.keep(directory.name, saved, {})


def _write_rendering(workspace: Workspace, templating: Artifact, pairs: int, texts: int) -> None:
    """Writes the settings and the formats of the training pairs, of which `texts` are standard."""
    settings = templating.record["ingredients"]["params"]
    rendering: dict[str, Any] = {name: settings.get(name) for name in RENDERING_FIELDS}
    counts = {"standard": texts, "conversational": pairs - texts}
    rendering["formats"] = [name for name, count in counts.items() if count]
    write_json(workspace.path / RENDERING_FILE, rendering, "later")
