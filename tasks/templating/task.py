"""Templating: every pair as the two exact texts that the model reads.

conversion  pairs/NNNNN.parquet  ->  texts/NNNNN.arrow  (pair_id, ..., chosen, rejected)
"""

from collections import Counter
from typing import Any

from tasks.artifact import (
    Artifact,
    Ledger,
    Memo,
    Step,
    Workspace,
    build_shards,
    digest_json,
    file_digest,
    input_digests,
)
from tasks.artifact.durable import write_json
from tasks.conversion.shards import PAIRS, pair_shards
from tasks.conversion.tolerance import check_bad_fraction, merged
from tasks.errors import DataError
from tasks.model import BaseModel
from tasks.templating.params import TemplatingParams
from tasks.templating.template import CHAT_TEMPLATE_FILE, template_source

STAGE = "templating"
SHELF = "3_templating"
VERSION = 19
NAMED_TEMPLATES = "additional_chat_templates"
REPLAYS_LOG = "replays.json"


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
        params.model_dump(mode="json", exclude={"workers"})
        | {"chat_template_path": template and digest_json(template)},
        {"conversion": conversion},
        build,
        libraries=("jinja2", "transformers"),
        files={"tokenizer": model.tokenizer_digest}
        | {f"{NAMED_TEMPLATES}/{path.name}": file_digest(path) for path in named},
        uses={"model": model_artifact},
    )


def _build(
    workspace: Workspace, params: TemplatingParams, conversion: Artifact, model: BaseModel
) -> None:
    from tasks.templating.not_rendered import not_rendered
    from tasks.templating.shards.batch import OPTIONAL
    from tasks.templating.shards.shard import TemplateShard
    from tasks.templating.template import with_effective_template
    from tasks.templating.template_faults import is_prefix_stable, undefined_names
    from tasks.templating.tokenizer.plain_tokenizer import plain_tokenizer
    from tasks.templating.tokenizer.saving import begin_encoder

    tokenizer = with_effective_template(plain_tokenizer(model.path), params)
    _check_tokenizer(tokenizer, params, model)
    shards = pair_shards(conversion)
    begin_encoder(model.path)
    numbers = build_shards(
        workspace,
        STAGE,
        shards,
        TemplateShard(workspace, tokenizer, params),
        workers=params.workers,
        memo=Memo(workspace, input_digests(conversion, PAIRS)),
    )
    _check_dropped(workspace, params, numbers)
    if tokenizer.chat_template is not None:
        with workspace.writing(CHAT_TEMPLATE_FILE, "later") as path:
            path.write_text(tokenizer.chat_template, "utf-8")
        workspace.report["undefined_in_template"] = undefined_names(tokenizer)
        workspace.report["prefix_stable"] = is_prefix_stable(tokenizer)
    workspace.report["not_rendered"] = not_rendered(tokenizer, conversion.report["notes"])
    delimiters = sum((Counter(n["delimiters"]) for n in numbers), Counter[str]())
    workspace.report["delimiters_in_text"] = dict(sorted(delimiters.items()))
    for name in (*OPTIONAL, "images"):
        workspace.report[f"with_{name}"] = sum(n[name] for n in numbers)
    # How many depends on which process had which shards, so the report does not hold it.
    replayed = {"rows_replayed": sum(n["replayed"] for n in numbers)}
    write_json(workspace.logs / REPLAYS_LOG, replayed, "later")
    workspace.report["shards_replay_differed"] = sum(n["replays_differed"] for n in numbers)


def _check_tokenizer(tokenizer: Any, params: TemplatingParams, model: BaseModel) -> None:
    """Raises DataError when the tokenizer lacks an EOS for texts, or what `encode` needs."""
    from tasks.templating.tokenizer.own_tokens import own_tokens

    if tokenizer.eos_token is None and not own_tokens(tokenizer).closes:
        raise DataError(
            f"the tokenizer of {model.path} has no EOS token, but texts are closed by one and the "
            "reward is read at their last token; set eos_token in its tokenizer_config.json"
        )
    if params.special_tokens_in_text == "encode" and not tokenizer.is_fast:
        raise DataError(
            f"templating.special_tokens_in_text: encode needs a tokenizer.json, and {model.path} "
            "has none; save the tokenizer as a fast one, or choose quarantine"
        )


def _check_dropped(
    workspace: Workspace, params: TemplatingParams, numbers: list[dict[str, Any]]
) -> None:
    """Raises DataError when too many rows of a source cannot be used with the template."""
    ledger = Ledger.from_json(workspace.report["ledger"])
    examples = merged([n["examples"] for n in numbers])
    advice = "Correct the source, or choose another template with templating.chat_template_path"
    key = "templating.max_bad_fraction"
    check_bad_fraction(ledger, params.max_bad_fraction, key, examples, advice)
