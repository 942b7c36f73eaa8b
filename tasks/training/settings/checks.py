"""Checks of a RewardConfig before anything is loaded; each refusal says what to set instead."""

import os
from dataclasses import fields
from importlib.util import find_spec
from typing import Any, get_args

import torch

from tasks.errors import ParamsError
from tasks.templating.tokenizer.special_tokens import Policy
from tasks.training.layout.choice import WantedLayout
from tasks.training.loss.params import loss_params
from tasks.training.params import Sampling
from tasks.training.settings.names import NAMES, check_name

MINIMUM = {
    "per_device_train_batch_size": (1, " pairs"),
    "per_device_eval_batch_size": (1, " pairs"),
    "gradient_accumulation_steps": (1, ""),
    "max_tokens_per_micro_batch": (1, " tokens"),
    "learning_rate": (0, ""),
    "weight_decay": (0, ""),
    "adam_beta1": (0, ""),
    "adam_beta2": (0, ""),
    "adam_epsilon": (0, ""),
    "num_train_epochs": (0, ""),
    "logging_steps": (0, ""),
    "max_grad_norm": (0, ""),
    "max_length": (1, " tokens"),
    "center_rewards_coefficient": (0, ""),
    "dataset_num_proc": (0, ""),
}
"""Smallest allowed value of a setting, and its unit for messages."""

CHOICES = {
    "special_tokens_in_text": Policy,
    "layout": WantedLayout,
    "train_sampling_strategy": Sampling,
}
"""Settings that are one of a few words."""

CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
"""Modes of torch.compile with CUDA graphs."""


def check_before_init(config: Any) -> None:
    """Checks settings as the user wrote them, before transformers' own `__post_init__`.

    Raises:
        ParamsError: a setting cannot be used here, or two contradict each other.
    """
    _check_numbers(config)
    if config.warmup_ratio is not None and config.warmup_steps:
        raise ParamsError(
            f"warmup_ratio={config.warmup_ratio} and warmup_steps={config.warmup_steps} are both "
            "given; leave one of them out"
        )
    if config.warmup_ratio is not None and not 0 <= config.warmup_ratio < 1:
        raise ParamsError(
            f"warmup_ratio is {config.warmup_ratio}; expected a share of all steps, 0 or more and "
            "below 1 (a number of steps is warmup_steps)"
        )
    if config.logging_nan_inf_filter:
        raise ParamsError(
            "logging_nan_inf_filter=True would log a NaN loss as 0; leave it out: a loss that is "
            "not finite ends the run and names its pairs"
        )
    if config.label_smoothing_factor:
        raise ParamsError(
            f"label_smoothing_factor={config.label_smoothing_factor} smooths the classes of a "
            "classifier, which a reward model has not; smooth the preferences with "
            f"loss={{type: bradley_terry, label_smoothing: {config.label_smoothing_factor}}}"
        )
    _check_deepspeed(config)
    _check_compiling(config)
    _check_dtype(config)
    for name in NAMES:
        check_name(name, getattr(config, name))


def check_after_init(config: Any) -> None:
    """Checks settings after `__post_init__`, which turns text into values.

    Raises:
        ParamsError: an unknown name, or a number that is too small.
    """
    for name, known in CHOICES.items():
        if getattr(config, name) not in get_args(known):
            raise ParamsError(
                f"{name} is {getattr(config, name)!r}; expected one of {', '.join(get_args(known))}"
            )
    for name, (least, unit) in MINIMUM.items():
        value: Any = getattr(config, name)
        if value is not None and not value >= least:  # NaN is neither
            raise ParamsError(f"{name} is {value}; expected {least} or more{unit}")
    loss_params(config.loss)  # refused here, not in the first step


def multiple_of(value: int | str | None) -> int | None:
    """`pad_to_multiple_of` as a number, from a number, its text, or TRL's default "auto".

    Raises:
        ParamsError: it is no number of tokens.
    """
    text = str(value).strip().lower()
    if text in ("auto", "none", "null", "0"):
        return None
    if not text.isdecimal():
        raise ParamsError(
            f"pad_to_multiple_of is {value!r}; expected a number of tokens, 1 or more, or None"
        )
    return int(text)


def on_gpu(config: Any) -> bool:
    """Whether the run will be on a GPU."""
    return torch.cuda.is_available() and not config.use_cpu


def gpu_has_bf16() -> bool:
    """Whether there is a GPU that computes in bfloat16 natively."""
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)


def _check_numbers(config: Any) -> None:
    """Refuses text in the place of any number, by the types that the settings declare."""
    for each in fields(config):
        value, kinds = getattr(config, each.name), {*(get_args(each.type) or [each.type])}
        if isinstance(value, str) and kinds & {int, float} and str not in kinds:
            raise ParamsError(
                f"{each.name} is the text {value!r}; expected a number (YAML reads 1e-4 as text, "
                "1.0e-4 as a number)"
            )


def _check_dtype(config: Any) -> None:
    """Refuses a dtype that the device emulates or cannot train in."""
    kwargs = config.model_init_kwargs if isinstance(config.model_init_kwargs, dict) else {}
    dtype = str(kwargs.get("dtype", kwargs.get("torch_dtype", ""))).removeprefix("torch.")
    if not on_gpu(config) and (config.fp16 or dtype == "float16"):
        raise ParamsError(
            "fp16 needs a GPU, and training runs on a CPU; leave fp16 out, or use bf16"
        )
    if on_gpu(config) and (config.bf16 or dtype == "bfloat16") and not gpu_has_bf16():
        raise ParamsError(
            f"bf16 is asked for, but {torch.cuda.get_device_name()} does not compute in it; use "
            "fp16, or leave bf16 out for float32"
        )


def _check_compiling(config: Any) -> None:
    """Refuses modes of torch.compile that record a CUDA graph for every length of rows."""
    if on_gpu(config) and config.torch_compile_mode in CUDA_GRAPH_MODES:
        raise ParamsError(
            f"torch_compile_mode {config.torch_compile_mode!r} records a CUDA graph for every "
            "length of a batch, and batches have no length twice; leave it out, or take "
            "'max-autotune-no-cudagraphs'"
        )


def _check_deepspeed(config: Any) -> None:
    """Refuses DeepSpeed where it is not installed, or where accelerate would not use it."""
    launched = os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() in ("1", "true")
    setting = "deepspeed" if config.deepspeed else "use_deepspeed (of accelerate launch)"
    if (config.deepspeed or launched) and find_spec("deepspeed") is None:
        raise ParamsError(
            f"{setting} needs the package deepspeed, which is not installed; install it (pip "
            f"install deepspeed) or leave {setting} out"
        )
    over_gloo = launched and config.ddp_backend and not config.use_cpu
    if (config.deepspeed or launched) and not (on_gpu(config) or over_gloo):
        raise ParamsError(
            f"{setting} is asked for on a CPU, where accelerate leaves DeepSpeed out; take FSDP "
            f"there (params/accelerate/fsdp2.yaml), or leave {setting} out"
        )
