"""Low-rank adapters: the head is always trained and saved, and the export is one plain model."""

import copy
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftConfig, PeftModel, PeftType, TaskType, get_peft_model
from peft.utils import ModulesToSaveWrapper
from transformers import PreTrainedModel

from tasks.errors import ModelError, meant, shown
from tasks.training.model.added_tokens import embedding_rows, tell_of_frozen_rows, train_rows
from tasks.training.model.loading import load_reward_model
from tasks.training.model.padding import embedding, grow
from tasks.training.model.quantized import dequantized, is_quantized
from tasks.training.params import LoraParams
from tasks.training.scoring import HEAD, head_modules, read_by_length

HEADS_OF_PEFT = ("classifier", "score")
"""Names that peft adds to `modules_to_save` of every sequence classifier's config, a saved one too,
whichever of them is the model's head."""


def lora_config(params: LoraParams) -> LoraConfig:
    """PEFT's config of the `lora:` section."""
    return LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=params.r,
        lora_alpha=params.alpha,
        lora_dropout=params.dropout,
        target_modules=params.target_modules,
        use_dora=params.use_dora,
        modules_to_save=[HEAD, *params.modules_to_save],
    )


def with_adapter(
    model: PreTrainedModel, config: PeftConfig, seed: int, added: Sequence[int] = ()
) -> PeftModel:
    """The model with adapters drawn from `seed`; its head is trained and saved whole, and so are
    the embedding's rows of tokens that were `added` to its vocabulary.

    Raises:
        ModelError: no module has a name that `target_modules` or `modules_to_save` asks for, or
            the adapters are for a model that writes text.
    """
    config = copy.deepcopy(config)
    config.inference_mode = False  # what peft saves says True, whoever trained with it
    saved = list(getattr(config, "modules_to_save", None) or [])
    children = {name for name, _ in model.named_children()}
    saved = [name for name in saved if name not in HEADS_OF_PEFT or name in children]
    _check_names(model, config, saved)
    head = [name.rpartition(".")[2] for name in head_modules(model)]
    config.modules_to_save = [*saved, *(name for name in head if name not in saved)]  # pyright: ignore[reportAttributeAccessIssue]
    if not getattr(config, "exclude_modules", None):  # what is trained whole needs no adapter
        config.exclude_modules = rf".*\b({'|'.join(head)})\b.*"  # pyright: ignore[reportAttributeAccessIssue]
    if config.task_type in (TaskType.CAUSAL_LM, TaskType.SEQ_2_SEQ_LM):
        raise ModelError(
            f"task_type of the adapter is {shown(str(config.task_type))}, but a reward model "
            "writes no text; leave task_type out, or set it to SEQ_CLS"
        )
    if config.task_type is None:
        config.task_type = TaskType.SEQ_CLS
    if added:
        train_rows(model, config, added)
    with torch.random.fork_rng(), warnings.catch_warnings():
        # peft 0.21 asks under a name that transformers 5.23 calls deprecated
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        torch.manual_seed(seed)
        try:
            adapted: Any = get_peft_model(model, config)
        except ValueError as error:
            raise ModelError(f"{error} {_there_are(model, linear=True)}") from error
    tell_of_frozen_rows(model, added)
    return adapted


def _check_names(model: PreTrainedModel, config: PeftConfig, saved: list[str]) -> None:
    """Refuses a name that no module has: peft passes over it in silence, unless it is a pattern."""
    targets: Any = getattr(config, "target_modules", None) or ()
    targets = () if isinstance(targets, str) else sorted(targets)
    modules = [name for name, _ in model.named_modules(remove_duplicate=False)]
    # A target is the whole end of a path; what is saved may be the end of a name.
    for field, names, start in (("target_modules", targets, "."), ("modules_to_save", saved, "")):
        for name in names:
            if not any((start + module).endswith(start + name) for module in modules):
                near = meant(name, {module.rpartition(".")[2] for module in modules})
                raise ModelError(
                    f"{field} names {shown(name)}, but no module of {type(model).__name__} is "
                    f"called so{near or '.'} {_there_are(model, linear=field == 'target_modules')}"
                )


def _there_are(model: PreTrainedModel, *, linear: bool) -> str:
    """The names that a model's modules, or only its linear layers, end in."""
    endings = {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) or not linear
    }
    kind = "linear layers" if linear else "modules"
    names = sorted(name for name in endings if name and not name.isdigit())
    return f"The model's {kind} are {names}."


def check_kind(model: PeftModel) -> None:
    """Refuses adapters that can never be added into the weights of one plain model.

    Raises:
        ModelError: they are virtual tokens, or adapt layers that share their weights.
    """
    configs: list[Any] = list(model.peft_config.values())
    for config in configs:
        if config.is_prompt_learning:
            raise ModelError(
                f"adapters of type {_kind(config)} are virtual tokens before "
                "every sequence, which a model that is loaded without peft has not; use LoRA, "
                "whose adapters are merged into the weights"
            )
        if getattr(config, "layer_replication", None):
            raise ModelError(
                f"layer_replication={config.layer_replication} repeats layers that share their "
                "weights, and the adapters of several cannot be merged into the same weights; "
                "leave it out, or save a model whose layers are repeated, and train that"
            )


def _kind(config: PeftConfig) -> str:
    """The name that peft has for adapters of a kind."""
    return shown(str(PeftType(config.peft_type).value))


def check_head_is_trained(model: PeftModel) -> None:
    """Refuses an adapter that would leave a random head frozen and unsaved.

    Raises:
        ModelError: no trainable parameter belongs to the head.
    """
    head = [name.rpartition(".")[2] for name in head_modules(base_of(model))]
    trained = [n.split(".") for n, p in model.named_parameters() if p.requires_grad]
    frozen = [name for name in head if not any(name in parts for parts in trained)]
    if frozen:
        raise ModelError(
            f"the adapter does not train the head {', '.join(map(repr, frozen))}: a reload would "
            f"score with another head; make it with modules_to_save={head} and load it with "
            "is_trainable=True"
        )


def load_adapter(directory: Path, options: dict[str, Any]) -> PeftModel:
    """The adapter of a directory on the base model (and commit) that it names, to be trained
    further.

    Raises:
        ModelError: the adapter does not say where its base model is, or that cannot be loaded.
    """
    config = PeftConfig.from_pretrained(str(directory))
    base = config.base_model_name_or_path
    if not base:
        raise ModelError(
            f"the adapter {directory} does not say what its base model is; write its place into "
            "base_model_name_or_path of adapter_config.json, or load it with peft and pass the "
            "PeftModel"
        )
    pinned: dict[str, Any] = {"revision": config.revision} if config.revision else {}
    body = load_reward_model(base, **pinned | options).model
    rows = embedding_rows(directory, body)
    if rows is not None and rows != embedding(body).num_embeddings:
        grow(body, rows)  # the adapter brings their values
    return PeftModel.from_pretrained(body, str(directory), is_trainable=True)


def merged_anew(directory: Path, body: PreTrainedModel) -> PreTrainedModel:
    """The adapter of a directory added into float32 weights of `body`, which is used up.

    A quantized body is read back as float32 first, so that the rewards are those that were trained.
    """
    plain = dequantized(body) if is_quantized(body) else body
    return merged(PeftModel.from_pretrained(plain, str(directory)))


def base_of(model: PeftModel | PreTrainedModel) -> PreTrainedModel:
    """The transformers model inside an adapter, or the model itself."""
    return model.get_base_model() if isinstance(model, PeftModel) else model  # pyright: ignore[reportReturnType]


def merged(model: PeftModel) -> PreTrainedModel:
    """One plain model with the adapters added into float32 weights; `model` is used up.

    Raises:
        ModelError: peft cannot add adapters of this kind, or leaves a part of them where it was.
    """
    model.float()
    kind = _kind(model.active_peft_config)
    try:
        plain: Any = model.merge_and_unload()
    except (RuntimeError, NotImplementedError) as error:
        raise ModelError(f"adapters of type {kind} cannot be merged: {error}") from error
    if any(isinstance(module, ModulesToSaveWrapper) for module in plain.modules()):
        raise ModelError(
            f"adapters of type {kind} cannot be merged: peft leaves modules that were trained "
            "whole, as the head is, beside those before; use LoRA"
        )
    read_by_length(plain)
    return plain
