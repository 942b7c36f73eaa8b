"""Checks the arguments of scripts that were written for another version or another package.

The error for an unknown name says what replaces it, or why to leave it out.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from tasks.errors import ParamsError, meant

GONE = "transformers has dropped it; leave it out"
OLDER_SETTINGS: Mapping[str, str] = {
    "evaluation_strategy": "say eval_strategy=...",
    "group_by_length": "say train_sampling_strategy='group_by_length'",
    "per_gpu_train_batch_size": "say per_device_train_batch_size=...",
    "per_gpu_eval_batch_size": "say per_device_eval_batch_size=...",
    "no_cuda": "say use_cpu=True",
    "use_mps_device": "a device is found by itself; leave it out",
    "adafactor": "say optim='adafactor'",
    "torchdynamo": "say torch_compile_backend=...",
    "include_inputs_for_metrics": "say include_for_metrics=['inputs']",
    "include_tokens_per_second": "say include_num_input_tokens_seen=True",
    "push_to_hub_model_id": "say hub_model_id=...",
    "push_to_hub_organization": "say hub_model_id='organization/name'",
    "push_to_hub_token": "say hub_token=...",
    "dispatch_batches": "say accelerator_config={'dispatch_batches': ...}",
    "split_batches": "say accelerator_config={'split_batches': ...}",
    "fsdp_min_num_params": "say fsdp_config={'min_num_params': ...}",
    "fsdp_transformer_layer_cls_to_wrap": (
        "say fsdp_config={'transformer_layer_cls_to_wrap': ...}"
    ),
    "fp16_backend": "torch's is the only one; leave it out",
    "half_precision_backend": "torch's is the only one; leave it out",
    "overwrite_output_dir": (
        "a run starts anew unless train(resume_from_checkpoint=True) asks to go on; leave it out"
    ),
    "save_safetensors": "weights are always saved as safetensors; leave it out",
    "logging_dir": "set TENSORBOARD_LOGGING_DIR in the environment",
    **dict.fromkeys(
        (
            *("fp16_opt_level", "jit_mode_eval", "mp_parameters", "past_index", "ray_scope"),
            *("tpu_metrics_debug", "tpu_num_cores", "use_ipex", "use_legacy_prediction_loop"),
        ),
        GONE,
    ),
}
"""Settings that older versions of transformers or TRL had, and what replaces them."""
OLDER_ARGUMENTS: Mapping[str, str] = {
    "tokenizer": "say processing_class=...",
    "max_length": "say args=RewardConfig(max_length=...)",
    "model_init": "give the model, or its path, as model",
    "compute_loss_func": "subclass RewardTrainer with a compute_loss of your own",
}
"""Arguments of older or other trainers, and what replaces them."""


def check_known(cls: type, arguments: Mapping[str, Any], older: Mapping[str, str]) -> None:
    """Checks keyword arguments against the class's signature; `older` maps names of other versions
    to what replaces them.

    Raises:
        ParamsError: the class does not take one; says what to write instead.
    """
    parameters = inspect.signature(cls.__init__).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in arguments:
        if name not in parameters:
            advice = f": {older[name]}" if name in older else meant(name, parameters, str)
            raise ParamsError(f"{cls.__name__} takes no {name}{advice}")


def check_kinds(**expected: tuple[Any, *tuple[type, ...]]) -> None:
    """Checks the types of arguments, given by name as `(value, *accepted types)`.

    Raises:
        ParamsError: a value has another type.
    """
    for name, (value, *kinds) in expected.items():
        if isinstance(value, tuple(kinds)):
            continue
        actual = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        accepted = " or ".join(_import_name(kind) for kind in kinds if kind is not NoneType)
        raise ParamsError(f"{name} is of type {actual}; expected {accepted}")


def _import_name(kind: type) -> str:
    """The name that a type is imported by: its top package and the class."""
    if kind in (str, Path):
        return kind.__name__
    package = kind.__module__.split(".")
    return f"{'.'.join(package[: 2 if package[0] == 'tasks' else 1])}.{kind.__name__}"
