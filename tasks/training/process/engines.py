"""What to do differently when FSDP or DeepSpeed (an "engine") holds the model."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn


@contextmanager
def accumulate_only(accelerator: Accelerator, model: nn.Module) -> Generator[None, None, None]:
    """For a backward pass that is not its step's last: gradients are only accumulated.

    DDP does not reduce them (`no_sync`). DeepSpeed would take an optimizer step within the backward
    pass where accelerate's `sync_gradients` is set, so that is cleared inside.
    """
    last = accelerator.sync_gradients
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        accelerator.sync_gradients = False
    try:
        with accelerator.no_sync(model):
            yield
    finally:
        accelerator.sync_gradients = last


def engine_within_layers(accelerator: Accelerator) -> str | None:
    """Why single layers cannot be compiled: an engine runs code within them. None if none does."""
    kind, state = accelerator.distributed_type, accelerator.state
    deepspeed: Any = state.deepspeed_plugin if kind == DistributedType.DEEPSPEED else None
    if deepspeed and deepspeed.zero_stage == 3:
        return "DeepSpeed's stage 3 gathers weights within layers, which breaks their graphs"
    fsdp: Any = state.fsdp_plugin if kind == DistributedType.FSDP else None
    if fsdp and fsdp.fsdp_version == 1:
        return "FSDP's version 1 puts modules of its own around layers, which has not been tried"
    return None
