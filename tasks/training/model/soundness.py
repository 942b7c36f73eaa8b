"""What cannot serve as a reward model: refused as it is loaded, with what to do about it.

    directory -> check_directory -> check_labels -> loaded -> check_keys -> check_finite

The first two look at the files, the others at what transformers made of them.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from tasks.errors import ModelError, some
from tasks.model.directory import check_single_stack, config_of
from tasks.model.family import without_classifier
from tasks.model.weights import check_safetensors
from tasks.training.scoring import head_names

MOST_NAMED = 5
"""Weights that a message names at most."""
LANGUAGE_HEADS = (
    *("lm_head.", "cls.", "predictions.", "generator_lm_head.", "embed_out."),
    "pooler.",  # RoBERTa's body may bring one that its classifier does not read
)
"""Weights of a language model that a reward model leaves behind."""

TOP_HEADS = (
    *("decoder.", "lm_predictions.", "mask_predictions.", "entity_predictions."),
    *("generator_predictions.", "discriminator_predictions."),  # ELECTRA's two
    *("vocab_transform.", "vocab_layer_norm.", "vocab_projector."),  # DistilBERT
    *("pred_layer.", "lm_loss.", "sop_classifier.", "output_projection."),
)
"""The same of heads at the top level alone: a body may have a `decoder` inside."""


PLACE = ("revision", "subfolder", "cache_dir", "token", "local_files_only", "force_download")
"""Arguments of `from_pretrained` that say which config is read."""


def place_of(options: Mapping[str, Any], names: Iterable[str] = PLACE) -> dict[str, Any]:
    """Of the arguments of `from_pretrained`, those that say where a model's files are."""
    return {name: options[name] for name in names if name in options}


def check_directory(path: Path, trusted: bool) -> None:
    """Refuses what would run pickles, and code unless it is `trusted`.

    A hub id is left to `from_pretrained`.

    Raises:
        ModelError: it does, or it is no model directory.
    """
    if not path.is_dir():
        return
    if (path / "adapter_config.json").is_file():
        raise ModelError(
            f"{path} holds an adapter, not a model; load it with peft and pass the PeftModel, or "
            "merge it first (merge_and_unload, save_pretrained)"
        )
    fields = config_of(path)
    if not trusted and "auto_map" in fields:
        raise ModelError(
            f"{path / 'config.json'} asks to run code of its own (auto_map); that is refused "
            "unless model_init_kwargs has trust_remote_code: true"
        )
    check_safetensors(path)


def check_labels(path: str | Path, trusted: bool, options: Mapping[str, Any]) -> None:
    """Refuses a classifier of several labels, an encoder with a decoder, and a family without a
    sequence classifier, by the config that `from_pretrained` will read.

    Raises:
        ModelError: it is one; or there is no config that can be read.
    """
    place = place_of(options)
    try:
        config = AutoConfig.from_pretrained(str(path), trust_remote_code=trusted, **place)
    except (OSError, ValueError, KeyError, TypeError, StrictDataclassError) as error:
        raise ModelError(
            f"{path} has no config that transformers can read: {error}; expected the directory of "
            "a saved model, or the name of one on the hub, owner/name"
        ) from error
    check_single_stack(path, config.is_encoder_decoder)
    families: Any = AutoModelForSequenceClassification._model_mapping  # pyright: ignore[reportPrivateUsage]
    if type(config) not in families and not trusted:
        raise without_classifier(path, config.model_type)
    trained = any(str(a).endswith("SequenceClassification") for a in config.architectures or [])
    if trained and config.num_labels != 1:
        raise ModelError(
            f"{path} classifies into {config.num_labels} labels; a reward model has one: start "
            "from its base model, or from a model that was trained with num_labels=1"
        )


def check_keys(path: str | Path, model: PreTrainedModel, loading: dict[str, Any]) -> list[str]:
    """The weights of the head that the directory does not have.

    Raises:
        ModelError: it lacks weights of the body, has some that the model does not know, or some of
            another shape.
    """
    for name, shape, expected in sorted(loading["mismatched_keys"]):
        raise ModelError(
            f"{path}: {name} has shape {[*shape]}, and config.json expects {[*expected]}; the "
            "config and the weights do not belong together"
        )
    missing = sorted(loading["missing_keys"])
    heads = head_names(model)
    body = [
        name
        for name in missing
        if name.startswith(f"{model.base_model_prefix}.") and not name.startswith(heads)
    ]
    if body:
        raise ModelError(f"{path} lacks {some(body, MOST_NAMED)}; the checkpoint is incomplete")
    strange = [k for k in sorted(loading["unexpected_keys"]) if not _belongs_to_language_head(k)]
    if strange:
        raise ModelError(
            f"{path} has weights that {type(model).__name__} does not know: "
            f"{some(strange, MOST_NAMED)}; the config and the weights do not belong together"
        )
    return missing


def _belongs_to_language_head(name: str) -> bool:
    anywhere = any(name.startswith(head) or f".{head}" in name for head in LANGUAGE_HEADS)
    return anywhere or name.startswith(TOP_HEADS)


def check_finite(path: str | Path, model: PreTrainedModel, known: Iterable[str]) -> None:
    """Refuses weights that are NaN or infinite; those named in `known` are not checked.

    Raises:
        ModelError: with the first such tensor.
    """
    skipped = set(known)
    for name, tensor in model.state_dict().items():
        if name in skipped or not tensor.is_floating_point():
            continue
        if not bool(torch.isfinite(tensor).all()):
            count = int((~torch.isfinite(tensor)).sum())
            raise ModelError(
                f"{path}: {name} holds {count} of {tensor.numel()} values that are NaN or infinite;"
                " the checkpoint is damaged or its training has diverged"
            )
