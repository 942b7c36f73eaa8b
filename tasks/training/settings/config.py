"""RewardConfig: TrainingArguments of transformers, with what reward modelling adds.

The names and defaults are those that TRL documents, so that a script switches by its import.
"""

import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from transformers import TrainingArguments

from tasks.templating.tokenizer.special_tokens import Policy
from tasks.training.model.kernels import liger_settings
from tasks.training.settings.checks import (
    check_after_init,
    check_before_init,
    gpu_has_bf16,
    multiple_of,
    on_gpu,
)
from tasks.training.settings.given_arguments import OLDER_SETTINGS, check_known


@dataclass
class RewardConfig(TrainingArguments):
    """Settings of `RewardTrainer`: these, and all others of TrainingArguments."""

    _VALID_DICT_FIELDS: ClassVar[list[str]] = [
        *TrainingArguments._VALID_DICT_FIELDS,
        "model_init_kwargs",
        "loss",
    ]

    learning_rate: float = field(default=1e-4, metadata={"help": "Peak learning rate."})
    logging_steps: float = field(default=10, metadata={"help": "Steps in one record."})
    logging_nan_inf_filter: bool = field(
        default=False, metadata={"help": "Must stay off: a loss that is not finite ends the run."}
    )
    bf16: bool | None = field(
        default=None, metadata={"help": "bfloat16; None: where a GPU has it and fp16 is off."}
    )
    gradient_checkpointing: bool | None = field(
        default=True,
        metadata={
            "help": "Recompute activations in the backward pass; None: on a GPU that has no room "
            "to keep those of the longest batch, as the preflight finds out."
        },
    )
    decides_checkpointing: bool = field(
        default=False,
        metadata={"help": "As gradient_checkpointing left at None does, on a GPU."},
    )
    warmup_ratio: float | None = field(
        default=None, metadata={"help": "Older name of a `warmup_steps` below 1."}
    )
    model_init_kwargs: dict[str, Any] | str | None = field(
        default=None,
        metadata={"help": "Arguments of from_pretrained when the model is given as a string."},
    )
    trust_remote_code: bool = field(
        default=False,
        metadata={"help": "Run code that a model or a tokenizer brings along."},
    )
    chat_template_path: str | None = field(
        default=None, metadata={"help": "A Jinja file, or a tokenizer whose template is taken."}
    )
    special_tokens_in_text: Policy = field(
        default="quarantine",
        metadata={
            "help": "What becomes of a raw row whose words hold a special token: quarantine leaves "
            "it out, encode reads the token as ordinary text, keep as markup."
        },
    )
    disable_dropout: bool = field(
        default=True, metadata={"help": "Set all dropout to 0, that of adapters too."}
    )
    dataset_num_proc: int | None = field(
        default=None, metadata={"help": "Processes that prepare the rows."}
    )
    eos_token: str | None = field(
        default=None, metadata={"help": "End of a sequence; None: the tokenizer's."}
    )
    pad_token: str | None = field(
        default=None, metadata={"help": "Padding; None: the tokenizer's, or one of its own."}
    )
    max_length: int | None = field(
        default=1024, metadata={"help": "Longest sequence of a pair that is kept; None keeps all."}
    )
    pad_to_multiple_of: int | str | None = field(
        default=None,
        metadata={"help": "Pad the batch to a multiple of this; auto, as None, does not."},
    )
    loss: dict[str, Any] | str | None = field(
        default=None,
        metadata={"help": "Name of a loss, or a mapping like LossParams; None: Bradley-Terry."},
    )
    center_rewards_coefficient: float | None = field(
        default=None, metadata={"help": "Weight of mean (chosen + rejected)^2 in the loss."}
    )
    layout: str = field(
        default="auto",
        metadata={"help": "auto, prefix_shared, padding_free or padded: how batches lie in memory"},
    )
    max_tokens_per_micro_batch: int | None = field(
        default=None,
        metadata={
            "help": "Computed tokens of a micro-batch at most; the pairs of an optimizer step stay "
            "per_device_train_batch_size x gradient_accumulation_steps x processes."
        },
    )
    activation_offloading: bool = field(
        default=False, metadata={"help": "Keep activations in host memory."}
    )
    preflight: bool = field(
        default=True,
        metadata={"help": "Rehearse the longest batch and the saving of the model first."},
    )

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Checks the names of the settings.

        Raises:
            ParamsError: there is no setting of that name; says what to write instead.
        """
        check_known(cls, given, OLDER_SETTINGS)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Fills in the settings that were not given, and checks all.

        Raises:
            ParamsError: a setting cannot be used, or two contradict each other.
        """
        if self.bf16 is None:
            fits = not self.fp16 and not self.use_cpu and gpu_has_bf16()
            self.bf16 = fits  # pyright: ignore[reportIncompatibleVariableOverride]
        if not torch.accelerator.is_available():
            self.dataloader_pin_memory = False  # torch would ignore it, with a warning
        check_before_init(self)
        if self.warmup_ratio is not None:
            self.warmup_steps, self.warmup_ratio = self.warmup_ratio, None
        if self.use_liger_kernel:
            liger = liger_settings(self.liger_kernel_config, on_gpu=on_gpu(self))
            self.liger_kernel_config = liger
        if self.gradient_checkpointing is None:
            # on until the preflight finds that it can be off
            self.gradient_checkpointing = self.decides_checkpointing = on_gpu(self)
        self._set_activation_checkpointing()
        self.max_grad_norm = self.max_grad_norm or 0.0  # None, too, never scales
        copies_decided = self.accelerator_config is not None
        self.torch_compile_backend = self.torch_compile_backend or _compiler_of_launcher()
        compiled = self.torch_compile or self.torch_compile_backend or self.torch_compile_mode
        if compiled and self.tf32 is None and torch.get_float32_matmul_precision() == "highest":
            self.tf32 = False  # else transformers turns TF32 on: 10 bits of mantissa
        super().__post_init__()
        if self.dataloader_pin_memory and not copies_decided:
            # else every batch waits for the device, which makes pinned memory useless
            self.accelerator_config.non_blocking = True  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
        check_after_init(self)
        self.pad_to_multiple_of = multiple_of(self.pad_to_multiple_of)

    @property
    def device(self) -> torch.device:
        """The device of this process; a CPU without a number.

        accelerate numbers the CPUs of several processes, transformers 5.17 resumes an optimizer to
        that device, and `torch.load` knows no numbered CPU.
        """
        device = super().device
        return torch.device("cpu") if device.type == "cpu" else device

    def _set_activation_checkpointing(self) -> None:
        """Copies gradient checkpointing to its name in newer versions of transformers."""
        for old in ("gradient_checkpointing", "gradient_checkpointing_kwargs"):
            new = old.replace("gradient", "activation")
            if getattr(self, new, False) is None:
                setattr(self, new, getattr(self, old))


def _compiler_of_launcher() -> str | None:
    """The backend that `accelerate launch --dynamo_backend` names."""
    named = os.environ.get("ACCELERATE_DYNAMO_BACKEND", "no").lower()
    return None if named in ("", "no") else named
