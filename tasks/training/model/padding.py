"""A padding token of its own for every tokenizer, and its row in the model's embedding."""

import logging
from typing import cast

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasks.errors import ModelError, TemplateError, shown
from tasks.templating.render import render

logger = logging.getLogger(__name__)

OWN_PAD_TOKENS = ("<|pad|>", "<pad>", "[PAD]", "<|finetune_right_pad_id|>", "<|vocab_pad|>")
"""Tokens that a vocabulary may keep for padding; the first is added where there is none."""


def fit_tokenizer(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Gives the tokenizer a padding token that serves for nothing else, and the model its id.

    A tokenizer without one, or with one that rows end in, gets a token that its vocabulary keeps
    for padding. Without such a token a new one is added, with a row of zeros in the embedding.

    Raises:
        ModelError: the tokenizer has ids that the embedding has no row for, or as `grow`.
    """
    rows = embedding(model).num_embeddings
    highest = max(tokenizer.get_vocab().values())
    if highest >= rows:
        raise ModelError(
            f"the tokenizer has id {highest} ({shown(tokenizer.convert_ids_to_tokens(highest))}) "
            f"but the embedding has {rows} rows; use the tokenizer that belongs to the model, or "
            "resize the model's embedding first"
        )
    if tokenizer.pad_token_id is None or _ends_rows(tokenizer):
        vocabulary = tokenizer.get_vocab()
        kept = [token for token in OWN_PAD_TOKENS if token in vocabulary]
        given, own = tokenizer.pad_token, kept[0] if kept else OWN_PAD_TOKENS[0]
        tokenizer.add_special_tokens({"pad_token": own})
        if given is not None:
            logger.warning("pad_token is %s instead of %s, which rows end in", own, given)
    pad = pad_id(tokenizer)
    if pad >= rows:
        grow(model, pad + 1)
        with torch.no_grad():
            embedding(model).weight[rows:] = 0
    model.config.get_text_config().pad_token_id = pad
    model.config.pad_token_id = pad


def _ends_rows(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether texts or conversations end in the padding token: transformers' own classes, which
    look for the last other token, would read their rewards one token too early."""
    if tokenizer.pad_token_id == tokenizer.eos_token_id:
        return True
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    try:
        text = render(turns, tokenizer)
    except TemplateError:  # no template, or none for them
        return False
    return text.endswith(str(tokenizer.pad_token))


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The padding id of a tokenizer that has one."""
    return cast(int, tokenizer.pad_token_id)


def grow(model: PreTrainedModel, rows: int) -> None:
    """Gives the embedding as many rows; what the new ones hold is up to the caller.

    Raises:
        ModelError: an adapter has wrapped the embedding, and its shapes with it.
    """
    if not isinstance(model.get_input_embeddings(), nn.Embedding):
        raise ModelError(
            f"the tokenizer now needs {rows} rows of the embedding, which has "
            f"{embedding(model).num_embeddings} within an adapter that is on the model already; "
            "merge that adapter (merge_and_unload, save_pretrained) and put a new one on the "
            "merged model, with peft_config"
        )
    model.resize_token_embeddings(rows, mean_resizing=False)


def embedding(model: PreTrainedModel) -> nn.Embedding:
    """The table with one row per token id; of one that an adapter has wrapped, its base."""
    table = model.get_input_embeddings()
    tables = (module for module in table.modules() if isinstance(module, nn.Embedding))
    return next(tables, cast(nn.Embedding, table))
