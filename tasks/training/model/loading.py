"""A model directory -> a reward model that can be trusted: one finite float32 reward, a known head.

What is refused is refused here, before any training: code or pickles in the directory, weights
that are missing or not finite, more labels than one, a tokenizer with ids beyond the embedding.
"""

import hashlib
import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from safetensors import safe_open
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from tasks.errors import ModelError, shown
from tasks.training.scoring import HEAD, head_modules, is_decoder, read_by_length

OWN_PAD_TOKENS = ("<|pad|>", "<pad>", "[PAD]", "<|finetune_right_pad_id|>", "<|vocab_pad|>")
"""Tokens that a vocabulary may keep for padding; the first is added where there is none."""

LANGUAGE_HEADS = (
    *("lm_head.", "cls.", "predictions.", "generator_lm_head.", "embed_out."),
    "pooler.",  # RoBERTa's body may bring one that its classifier does not read
)
"""Weights of a language model that a reward model leaves behind."""

MASKED_HEADS = ("decoder.", "lm_predictions.", "mask_predictions.", "generator_predictions.")
"""The same of encoders, at the top level alone: a body may have a `decoder` inside."""


@dataclass(frozen=True)
class Head:
    """Where the score head comes from."""

    origin: Literal["loaded", "new"]
    sha256: str
    """Of the head's float32 values as they stand before training."""


@dataclass(frozen=True)
class RewardModel:
    """A model whose rewards are read by `score`, and the origin of its head."""

    model: PreTrainedModel
    head: Head


def load_reward_model(
    path: str | Path,
    *,
    dtype: str | torch.dtype = "float32",
    seed: int = 0,
    need_head: bool = False,
    **options: Any,
) -> RewardModel:
    """The reward model of a directory (or hub id), with a head drawn from `seed` if it has none.

    `options` go to `from_pretrained`. With `need_head` a directory without a head is refused, as
    evaluation and serving must.

    Raises:
        ModelError: the directory cannot serve as a reward model; says why and what to do.
    """
    trusted = bool(options.get("trust_remote_code"))
    _check_directory(Path(path), trusted)
    _check_labels(path, trusted)
    with torch.random.fork_rng(), _quiet_loading():
        torch.manual_seed(seed)
        model, loading = _from_pretrained(str(path), dtype, options)
    missing = _check_keys(path, model, loading)
    _check_finite(path, model, known=missing)
    if missing and need_head:
        raise ModelError(
            f"{path} has no score head ({missing[0]} is missing); it was never trained"
        )
    _realign(model)
    read_by_length(model)
    _read_head(Path(path), model)
    if missing and is_decoder(model):
        _draw_head(getattr(model, HEAD), model.config, seed)
    model.config.problem_type = "regression"
    model.config.id2label, model.config.label2id = {0: "reward"}, {"reward": 0}
    return RewardModel(model, Head("new" if missing else "loaded", head_digest(model)))


def head_digest(model: PreTrainedModel) -> str:
    """SHA-256 of the float32 values of `head_modules`."""
    heads = tuple(f"{name}." for name in head_modules(model))
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if name.startswith(heads):
            digest.update(name.encode())
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def fit_tokenizer(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Gives both a padding token of its own, the same for both.

    A tokenizer without one, or with EOS in its place, gets one that its vocabulary keeps for that,
    or a new one (and the embedding a row of zeros, which no sequence ever reads).

    Raises:
        ModelError: the tokenizer has ids that the embedding has no row for.
    """
    rows = embedding(model).num_embeddings
    highest = max(tokenizer.get_vocab().values())
    if highest >= rows:
        raise ModelError(
            f"the tokenizer has id {highest} ({shown(tokenizer.convert_ids_to_tokens(highest))}) "
            f"but the embedding has {rows} rows; use the tokenizer that belongs to the model, or "
            "resize the model's embedding first"
        )
    if tokenizer.pad_token_id is None or tokenizer.pad_token_id == tokenizer.eos_token_id:
        vocabulary = tokenizer.get_vocab()
        kept = [token for token in OWN_PAD_TOKENS if token in vocabulary]
        tokenizer.add_special_tokens({"pad_token": kept[0] if kept else OWN_PAD_TOKENS[0]})
    pad = pad_id(tokenizer)
    if pad >= rows:
        model.resize_token_embeddings(pad + 1, mean_resizing=False)
        with torch.no_grad():
            embedding(model).weight[rows:] = 0
    model.config.get_text_config().pad_token_id = pad
    model.config.pad_token_id = pad


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The padding id of a tokenizer that has one."""
    return cast(int, tokenizer.pad_token_id)


def embedding(model: PreTrainedModel) -> nn.Embedding:
    """The table with one row per token id."""
    return cast(nn.Embedding, model.get_input_embeddings())


def disable_dropout(model: nn.Module) -> None:
    """Sets every dropout probability of the modules to 0; the config keeps what it says."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)


def _check_directory(path: Path, trusted: bool) -> None:
    """Refuses what would run pickles, and code unless it is `trusted`.

    A hub id is left to `from_pretrained`.
    """
    if not path.is_dir():
        return
    if (path / "adapter_config.json").is_file():
        raise ModelError(
            f"{path} holds an adapter, not a model; load it with peft and pass the PeftModel, or "
            "merge it first (merge_and_unload, save_pretrained)"
        )
    config = path / "config.json"
    if not config.is_file():
        raise ModelError(f"{path} holds no config.json; it is no model directory")
    if not trusted and "auto_map" in json.loads(config.read_text("utf-8")):
        raise ModelError(
            f"{config} asks to run code of its own (auto_map); that is refused unless "
            "model_init_kwargs has trust_remote_code: true"
        )
    if not any(path.glob("*.safetensors")):
        raise ModelError(
            f"{path} holds no safetensors weights; pickled weights can run code and are refused: "
            "convert them with save_pretrained"
        )


def _check_labels(path: str | Path, trusted: bool) -> None:
    config = AutoConfig.from_pretrained(str(path), trust_remote_code=trusted)
    trained = any(str(a).endswith("SequenceClassification") for a in config.architectures or [])
    if trained and config.num_labels != 1:
        raise ModelError(
            f"{path} classifies into {config.num_labels} labels; a reward model has one: start "
            "from its base model, or from a model that was trained with num_labels=1"
        )


def _from_pretrained(
    path: str, dtype: str | torch.dtype, options: dict[str, Any]
) -> tuple[PreTrainedModel, dict[str, Any]]:
    fixed = {"num_labels": 1, "use_safetensors": True, "output_loading_info": True}
    given = {"dtype": dtype, "trust_remote_code": False, **options, **fixed}
    try:
        return AutoModelForSequenceClassification.from_pretrained(path, **given)
    except (ValueError, OSError, RuntimeError) as error:
        raise ModelError(f"{path} cannot be loaded as a reward model: {error}") from error


def _check_keys(path: str | Path, model: PreTrainedModel, loading: dict[str, Any]) -> list[str]:
    """The weights of the head that the directory does not have.

    Raises:
        ModelError: it lacks weights of the body, or has some that the model does not know.
    """
    missing = sorted(loading["missing_keys"])
    heads = tuple(f"{name}." for name in head_modules(model))
    body = [
        name
        for name in missing
        if name.startswith(f"{model.base_model_prefix}.") and not name.startswith(heads)
    ]
    if body:
        raise ModelError(f"{path} lacks {_listed(body)}; the checkpoint is incomplete")
    strange = [k for k in sorted(loading["unexpected_keys"]) if not _belongs_to_language_head(k)]
    if strange:
        raise ModelError(
            f"{path} has weights that {type(model).__name__} does not know: {_listed(strange)}; "
            "the config and the weights do not belong together"
        )
    return missing


def _belongs_to_language_head(name: str) -> bool:
    anywhere = any(name.startswith(head) or f".{head}" in name for head in LANGUAGE_HEADS)
    return anywhere or name.startswith(MASKED_HEADS)


def _check_finite(path: str | Path, model: PreTrainedModel, known: Iterable[str]) -> None:
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


def _realign(model: PreTrainedModel) -> None:
    """Moves every weight out of the file that it is mapped from, into memory of its own.

    A tensor starts anywhere in a file, and products over unaligned memory end in other last digits:
    measured as a reward that changes by one unit in the last place over save and load.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()


def _read_head(path: Path, model: PreTrainedModel) -> None:
    """The head as it stands in the files: loading in bfloat16 has rounded it on its way."""
    head = {
        f"{name}.{inner}": parameter
        for name, module in head_modules(model).items()
        for inner, parameter in module.named_parameters()
        if parameter.is_floating_point()
    }
    for file in sorted(path.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors, torch.no_grad():
            for name in set(tensors.keys()) & set(head):
                head[name].copy_(tensors.get_tensor(name))


def _draw_head(head: nn.Module, config: Any, seed: int) -> None:
    deviation = float(getattr(config, "initializer_range", None) or 0.02)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            drawn = torch.zeros(parameter.shape)
            if name.endswith("weight"):
                drawn.normal_(0.0, deviation, generator=generator)
            parameter.copy_(drawn)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


@contextmanager
def _quiet_loading() -> Generator[None, None, None]:
    """Silences the table of missing keys: the keys are checked here, with plain sentences."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
