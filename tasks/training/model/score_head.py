"""The score head: read exactly from a model's files, drawn where they hold none, and its digest."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from torch import nn
from transformers import PreTrainedModel

from tasks.training.scoring import head_modules, head_names


@dataclass(frozen=True)
class Head:
    """Where the score head comes from."""

    origin: Literal["loaded", "new"]
    sha256: str
    """Of the head's float32 values as they stand before training."""


def head_digest(model: PreTrainedModel) -> str:
    """SHA-256 of the float32 values of `head_modules`."""
    heads = head_names(model)
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if name.startswith(heads):
            digest.update(name.encode())
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def read_head(files: list[Path], model: PreTrainedModel, known: Collection[str]) -> None:
    """Copies the head's float32 values from the files: loading in bfloat16 has rounded them.

    `known`: names of the head that the files do not have.
    """
    head = {
        f"{name}.{inner}": parameter
        for name, module in head_modules(model).items()
        for inner, parameter in module.named_parameters()
        if parameter.is_floating_point() and f"{name}.{inner}" not in known
    }
    for file in files:
        with safe_open(file, framework="pt") as tensors, torch.no_grad():
            for name in set(tensors.keys()) & set(head):
                head[name].copy_(tensors.get_tensor(name))


def draw_head(head: nn.Module, config: Any, seed: int) -> None:
    """Draws a new head from `seed`: weights with the config's deviation, biases 0."""
    deviation = float(getattr(config, "initializer_range", None) or 0.02)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            drawn = torch.zeros(parameter.shape)
            if name.endswith("weight"):
                drawn.normal_(0.0, deviation, generator=generator)
            parameter.copy_(drawn)
