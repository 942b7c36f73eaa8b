"""RewardConfig: TrainingArguments of transformers, with what reward modelling adds.

The names and defaults are those that TRL documents, so that a script switches by its import.
"""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch
from transformers import TrainingArguments

from tasks.errors import ParamsError


@dataclass
class RewardConfig(TrainingArguments):
    """Settings of `RewardTrainer`. What is not listed here is TrainingArguments'."""

    _VALID_DICT_FIELDS: ClassVar[list[str]] = [
        *TrainingArguments._VALID_DICT_FIELDS,
        "model_init_kwargs",
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
        default=True, metadata={"help": "Recompute activations in the backward pass."}
    )
    warmup_ratio: float | None = field(
        default=None, metadata={"help": "Older name of a `warmup_steps` below 1."}
    )
    model_init_kwargs: dict[str, Any] | str | None = field(
        default=None,
        metadata={"help": "Arguments of from_pretrained when the model is given as a string."},
    )
    chat_template_path: str | None = field(
        default=None, metadata={"help": "A Jinja file, or a tokenizer whose template is taken."}
    )
    disable_dropout: bool = field(default=True, metadata={"help": "Set all dropout to 0."})
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
    pad_to_multiple_of: int | None = field(
        default=None, metadata={"help": "Pad the batch to a multiple of this."}
    )
    center_rewards_coefficient: float | None = field(
        default=None, metadata={"help": "Weight of mean (chosen + rejected)^2 in the loss."}
    )
    activation_offloading: bool = field(
        default=False, metadata={"help": "Keep activations in host memory."}
    )

    def __post_init__(self) -> None:
        """Decides what was left open.

        Raises:
            ParamsError: two settings contradict each other.
        """
        if self.bf16 is None:
            fits = not self.fp16 and not self.use_cpu and _gpu_has_bf16()
            self.bf16 = fits  # pyright: ignore[reportIncompatibleVariableOverride]
        if not torch.accelerator.is_available():
            self.dataloader_pin_memory = False  # torch would ignore it, with a warning
        if self.warmup_ratio is not None:
            if self.warmup_steps:
                raise ParamsError(
                    f"warmup_ratio={self.warmup_ratio} and warmup_steps={self.warmup_steps} are "
                    "both given; leave one of them out"
                )
            self.warmup_steps, self.warmup_ratio = self.warmup_ratio, None
        if self.logging_nan_inf_filter:
            raise ParamsError(
                "logging_nan_inf_filter=True would log a NaN loss as 0; leave it out: a loss that "
                "is not finite ends the run and names its pairs"
            )
        self._say_activation_checkpointing()
        super().__post_init__()

    def _say_activation_checkpointing(self) -> None:
        """Hands gradient checkpointing on under the name that newer transformers gave it."""
        newer = {"gradient_checkpointing": "activation_checkpointing"}
        newer["gradient_checkpointing_kwargs"] = "activation_checkpointing_kwargs"
        names = {f.name for f in fields(self)}
        for old, new in newer.items():
            if new in names and getattr(self, new) is None:
                setattr(self, new, getattr(self, old))


def _gpu_has_bf16() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
