"""What a trainer starts from: the model with its head and its adapters."""

import logging
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, PeftModel
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasks.errors import ModelError, ParamsError
from tasks.training.model.adapter import (
    base_of,
    check_head_is_trained,
    check_kind,
    load_adapter,
    with_adapter,
)
from tasks.training.model.added_tokens import grow_embedding, tell_of_frozen_rows
from tasks.training.model.dropout import disable_dropout
from tasks.training.model.families import check_padding_unseen
from tasks.training.model.kernels import tell_of_liger
from tasks.training.model.loading import load_reward_model, realign
from tasks.training.model.padding import fit_tokenizer, pad_id
from tasks.training.model.quantized import check_trainable, compute_exactly, with_quantization
from tasks.training.model.score_head import Head, head_digest
from tasks.training.model.tokenizer import loading_options, tell_of_class
from tasks.training.scoring import read_by_length
from tasks.training.settings.config import RewardConfig

logger = logging.getLogger(__name__)


def prepare_model(
    model: str | PreTrainedModel | PeftModel,
    args: RewardConfig,
    tokenizer: PreTrainedTokenizerBase,
    added: list[int],
    peft_config: PeftConfig | None,
    quantization: Any,
) -> tuple[PreTrainedModel | PeftModel, Head]:
    """The model that is trained, ready to be scored, and where its head comes from.

    `added`: ids of the tokens that the tokenizer got with a template.
    """
    model, head = _loaded(model, args, quantization)
    base = base_of(model)
    _check_half(base, args)
    compute_exactly(base)
    if args.chat_template_path is not None:
        grow_embedding(base, tokenizer)
    fit_tokenizer(base, tokenizer)
    tell_of_class(tokenizer, base.config.model_type)
    if args.eos_token is not None:
        config = base.config
        config.eos_token_id = config.get_text_config().eos_token_id = tokenizer.eos_token_id
    model = _adapted(model, peft_config, args.seed, added)
    check_trainable(model)
    _check_checkpointing(base, args)
    check_padding_unseen(base, pad_id(tokenizer))
    logger.info("the head is %s, SHA-256 %s", head.origin, head.sha256)
    if isinstance(model, PeftModel):
        check_head_is_trained(model)
        if args.gradient_checkpointing:
            base.enable_input_require_grads()
    if args.disable_dropout:
        _tell_of_dropout(model)
        disable_dropout(base)
    if args.use_liger_kernel:
        tell_of_liger(base.config.model_type)
    return model, head


def _loaded(
    model: str | PreTrainedModel | PeftModel, args: RewardConfig, quantization: Any
) -> tuple[PreTrainedModel | PeftModel, Head]:
    """The model of a path, or the given one, which is then read by length; and its head."""
    if isinstance(model, str):
        options = with_quantization(loading_options(args), quantization)
        if not (Path(model) / "adapter_config.json").is_file():
            loaded = load_reward_model(model, seed=args.seed, **options)
            return loaded.model, loaded.head
        model = load_adapter(Path(model), options)
        return model, Head("loaded", head_digest(base_of(model)))
    if quantization is not None:
        raise ParamsError("quantization_config is only used when the model is given as a path")
    if args.model_init_kwargs:
        raise ParamsError("model_init_kwargs are only used when the model is given as a path")
    _leave_autocast(model)
    base = base_of(model)
    realign(base)
    read_by_length(base)
    return model, Head("loaded", head_digest(base))


def _leave_autocast(model: nn.Module) -> None:
    """Gives a model that another trainer has trained in half precision its own forward back:
    Accelerate, in whose autocast it runs since, puts it into one where `args` ask for that."""
    if own := vars(model).pop("_original_forward", None):
        model.forward = own


def _adapted(
    model: PreTrainedModel | PeftModel, config: PeftConfig | None, seed: int, added: list[int]
) -> PreTrainedModel | PeftModel:
    """The model with adapters of this config, with those that it has already, or with none."""
    if config is not None:
        if isinstance(model, PeftModel):
            raise ParamsError("the model is a PeftModel already; leave peft_config out")
        model = with_adapter(model, config, seed, added)
    elif added and isinstance(model, PeftModel):
        tell_of_frozen_rows(base_of(model), added)
    if isinstance(model, PeftModel):
        check_kind(model)
    return model


def _tell_of_dropout(model: PreTrainedModel | PeftModel) -> None:
    """Warns where the config of an adapter asks for dropout that is about to be disabled."""
    configs: Any = model.peft_config.values() if isinstance(model, PeftModel) else ()
    if any(getattr(config, "lora_dropout", 0) for config in configs):
        logger.warning(
            "disable_dropout sets the adapters' dropout to 0 (lora_dropout, in their config); "
            "train with disable_dropout=False to keep it"
        )


def _check_checkpointing(model: PreTrainedModel, args: RewardConfig) -> None:
    """Turns checkpointing off where it is not asked for by name and the family has none.

    Raises:
        ModelError: it is asked for.
    """
    if not args.gradient_checkpointing or model.supports_gradient_checkpointing:
        return
    if not args.decides_checkpointing:
        raise ModelError(
            f"{type(model).__name__} has no gradient checkpointing in transformers; set "
            "gradient_checkpointing=False"
        )
    args.gradient_checkpointing = args.decides_checkpointing = False


def _check_half(model: PreTrainedModel, args: RewardConfig) -> None:
    """Refuses float16 weights on a CPU: the optimizer's updates would be rounded away.

    Raises:
        ParamsError: as above.
    """
    half = [name for name, tensor in model.named_parameters() if tensor.dtype == torch.float16]
    if half and args.device.type == "cpu":
        raise ParamsError(
            f"the weights of the model are float16 (the first is {half[0]}), which needs a GPU, "
            "and training runs on a CPU; load it with dtype float32, which model_init_kwargs "
            "leave it at by themselves, or bfloat16"
        )
