"""Chooses a run's layout: the wanted one if it is exact for the model, else padded batches.

prefix_shared   one flat row; the prompt of a pair, or of a comparison, is computed once
padding_free    one flat row; every sequence by itself
padded          a rectangle, as long as its longest sequence; fits every model
"""

import logging
from typing import Literal

import torch
from torch import nn
from transformers import PreTrainedModel, TrainingArguments

from tasks.training.layout.support import make_flat
from tasks.training.model.dropout import has_dropout

logger = logging.getLogger(__name__)

ExactLayout = Literal["prefix_shared", "padding_free", "padded"]
WantedLayout = Literal["auto", ExactLayout]


def choose_layout(
    wanted: WantedLayout, model: PreTrainedModel, args: TrainingArguments
) -> ExactLayout:
    """The layout of a run, for which the model has been prepared.

    `auto` takes `prefix_shared`. If a flat layout is not exact, or cannot be tried, the layout is
    `padded`, and the log says why.
    """
    if wanted == "padded":
        return "padded"
    half = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None
    reason = _by_settings(model, args) or make_flat(model, half)
    if reason is not None:
        expected = wanted == "auto" and args.device.type == "cpu"
        tell = logger.info if expected else logger.warning  # on a GPU it costs most
        tell("batches are padded: %s", reason)
        return "padded"
    return "prefix_shared" if wanted == "auto" else wanted


def _by_settings(model: nn.Module, args: TrainingArguments) -> str | None:
    if any(hasattr(parameter, "ds_id") for parameter in model.parameters()):
        return (
            "DeepSpeed's stage 3 has dealt out the model's weights as it was loaded, so nothing "
            "can be tried with it; give RewardTrainer its path, not the model"
        )
    if args.neftune_noise_alpha:
        return "NEFTune's noise is scaled by the length of a row, and a shared prompt would get one"
    if _is_random(model):
        return "dropout, or a router's noise, would strike a shared prompt once for all its answers"
    return None


def _is_random(model: nn.Module) -> bool:
    """Whether any module uses dropout, or noise in training: a router of experts its jitter."""
    return has_dropout(model) or any(
        "jitter" in name and isinstance(value, float) and value > 0
        for module in model.modules()
        for name, value in vars(module).items()
    )
