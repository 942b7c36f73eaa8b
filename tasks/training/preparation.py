"""What a trainer starts from: the tokenizer, and the model with its head and its adapters."""

import datetime
import logging
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, PeftModel
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from tasks.errors import ParamsError
from tasks.templating.template import pin
from tasks.training.adapter import base_of, check_head_is_trained, with_adapter
from tasks.training.config import RewardConfig
from tasks.training.model import (
    Head,
    disable_dropout,
    embedding,
    fit_tokenizer,
    head_digest,
    load_reward_model,
)
from tasks.training.scoring import read_by_length

logger = logging.getLogger(__name__)


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a directory or hub id.

    Raises:
        ParamsError: there is none.
    """
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ParamsError(
            f"no tokenizer stands beside the model {name!r}; pass it as processing_class"
        ) from error


def prepare_tokenizer(
    tokenizer: PreTrainedTokenizerBase | None, args: RewardConfig, model_name: str
) -> PreTrainedTokenizerBase:
    """The tokenizer, given or the model's, with the special tokens and the template of `args`.

    A template that asks for today's date gets the date of this day written into it, so that the
    model leaves with the template that its rows were rendered by.

    Raises:
        ParamsError: there is no tokenizer, or none at `chat_template_path`.
        TemplateError: the template depends on chance.
    """
    tokenizer = tokenizer or load_tokenizer(model_name)
    for token in ("eos_token", "pad_token"):
        if getattr(args, token) is not None:
            tokenizer.add_special_tokens({token: getattr(args, token)})
    if args.chat_template_path is not None:
        _take_template(tokenizer, args.chat_template_path)
    template = tokenizer.chat_template
    if isinstance(template, str):
        today = datetime.datetime.now(datetime.UTC).date()
        tokenizer.chat_template = pin(template, today)
        if tokenizer.chat_template != template:
            logger.warning("the chat template asks for today's date; it is fixed to %s", today)
    return tokenizer


def _take_template(tokenizer: PreTrainedTokenizerBase, source: str) -> None:
    """Gives the tokenizer the template of a Jinja file, or that and the tokens of another one."""
    if Path(source).is_file():
        tokenizer.chat_template = Path(source).read_text("utf-8")
        return
    try:
        other: Any = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise ParamsError(
            f"chat_template_path {source!r} is no Jinja file, and no tokenizer stands there"
        ) from error
    if other.chat_template is None:
        raise ParamsError(f"chat_template_path {source!r} is a tokenizer without a chat template")
    tokenizer.chat_template = other.chat_template
    known = tokenizer.get_vocab()
    added = [t for _, t in sorted(other.added_tokens_decoder.items()) if str(t) not in known]
    tokenizer.add_tokens(added)


def _grow_embedding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Rows for the tokens that a template brought along, each the mean of the rows there were."""
    rows = embedding(model).num_embeddings
    if len(tokenizer) <= rows:
        return
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        table = embedding(model).weight
        table[rows:] = table[:rows].float().mean(0).to(table.dtype)


def prepare_model(
    model: str | PreTrainedModel | PeftModel,
    args: RewardConfig,
    tokenizer: PreTrainedTokenizerBase,
    peft_config: PeftConfig | None,
) -> tuple[PreTrainedModel | PeftModel, Head]:
    """The model that is trained, ready to be scored, and where its head comes from."""
    if isinstance(model, str):
        options: Any = args.model_init_kwargs or {}  # a dict by now: the config has parsed text
        loaded = load_reward_model(model, seed=args.seed, **options)
        model, head = loaded.model, loaded.head
    else:
        if args.model_init_kwargs:
            raise ParamsError("model_init_kwargs are only used when the model is given as a path")
        read_by_length(base_of(model))
        head = Head("loaded", head_digest(base_of(model)))
    if args.chat_template_path is not None:
        _grow_embedding(base_of(model), tokenizer)
    fit_tokenizer(base_of(model), tokenizer)
    if peft_config is not None:
        if isinstance(model, PeftModel):
            raise ParamsError("the model is a PeftModel already; leave peft_config out")
        model = with_adapter(model, peft_config, args.seed)
    if isinstance(model, PeftModel):
        check_head_is_trained(model)
        if args.gradient_checkpointing:
            base_of(model).enable_input_require_grads()
    if args.disable_dropout:
        disable_dropout(base_of(model))
    return model, head
