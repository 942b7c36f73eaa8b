"""The embedding's rows of tokens that came with a chat template: new, trained, loaded again.

rows       0 ... 63 | 64 <|turn|>  65 <|over|>      each new one the mean of those before
adapters   frozen   | trained                       else the model could not tell them apart
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft.tuners.tuners_utils import check_target_module_exists
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors import safe_open
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasks.training.model.padding import embedding, grow

logger = logging.getLogger(__name__)


def grow_embedding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Rows for the tokens that a template brought along, each the mean of the rows there were."""
    rows = embedding(model).num_embeddings
    highest = max(tokenizer.get_vocab().values())
    if highest < rows:
        return
    grow(model, highest + 1)
    with torch.no_grad():
        table = embedding(model).weight
        table[rows:] = table[:rows].float().mean(0).to(table.dtype)


def train_rows(model: PreTrainedModel, config: Any, added: Sequence[int]) -> None:
    """Makes the adapter's config train the rows of these ids.

    Nothing is changed where it trains the whole embedding anyway, or cannot train single rows.
    """
    place = _place(model)
    whole = any(place.endswith(name) for name in config.modules_to_save)
    whole = whole or bool(check_target_module_exists(config, place))
    if whole or not hasattr(config, "trainable_token_indices"):
        return
    indices = config.trainable_token_indices or []
    rows = dict(indices) if isinstance(indices, dict) else {place: indices}
    name = next((name for name in rows if place.endswith(name)), place)
    rows[name] = sorted({*rows.get(name, []), *added})
    config.trainable_token_indices = rows


def tell_of_frozen_rows(model: PreTrainedModel, added: Sequence[int]) -> None:
    """Warns where tokens were added, and the adapter on a model trains nothing of its embedding."""
    table = model.get_input_embeddings()
    if added and not any(parameter.requires_grad for parameter in table.parameters()):
        name = _place(model).rpartition(".")[2]
        logger.warning(
            "the adapter trains no rows of the embedding: those of the %d tokens that came with "
            "the chat template stay alike, so that the model cannot tell them apart; train new "
            "adapters by a LoraConfig, or with modules_to_save=[%r]",
            len(added),
            name,
        )


def embedding_rows(directory: Path, body: PreTrainedModel) -> int | None:
    """Rows of the embedding that an adapter brings along, as peft saves one that has grown."""
    path = directory / SAFETENSORS_WEIGHTS_NAME
    if not path.is_file():
        return None
    place = _place(body)
    with safe_open(path, "pt") as file:
        shapes = [
            file.get_slice(name).get_shape()
            for name in file.keys()  # noqa: SIM118 - the file is no mapping
            if f".{place}." in name and name.endswith(".weight")
        ]
    width = embedding(body).embedding_dim
    return next((shape[0] for shape in shapes if shape[1:] == [width]), None)


def _place(model: PreTrainedModel) -> str:
    """The path of the module that turns ids into vectors."""
    table = model.get_input_embeddings()
    return next(name for name, module in model.named_modules() if module is table)
