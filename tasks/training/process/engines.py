"""What differs where an engine (FSDP, DeepSpeed) holds the model."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn


@contextmanager
def without_step(accelerator: Accelerator, model: nn.Module) -> Generator[None, None, None]:
    """A micro-batch that is not its step's last: gradients are added, and nothing else is done.

    Where processes hold gradients whole, these stay in their process. DeepSpeed steps within a
    backward pass, the last of a step as far as accelerate knows, so it is told otherwise.
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
    """Why layers cannot be compiled as they are written: an engine works within them; None: none
    does."""
    kind, state = accelerator.distributed_type, accelerator.state
    deepspeed: Any = state.deepspeed_plugin if kind == DistributedType.DEEPSPEED else None
    if deepspeed and deepspeed.zero_stage == 3:
        return "DeepSpeed's stage 3 gathers weights within layers, which breaks their graphs"
    fsdp: Any = state.fsdp_plugin if kind == DistributedType.FSDP else None
    if fsdp and fsdp.fsdp_version == 1:
        return "FSDP's version 1 puts modules of its own around layers, which has not been tried"
    return None
