"""FSDP where accelerate leaves it out, and the whole model out of its shards.

accelerate 1.15 makes a plugin of an FSDP config on every kind of machine, but hands it to its state
on accelerators alone: processes on CPUs would each hold the whole model, without a word. torch's
`fully_shard` runs on CPUs over gloo. So the state is told, through its public attributes, what it
would have been told on a GPU; all else (wrapping, clipping, saving, loading) is accelerate's own.
"""

import os
from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecision, MixedPrecisionPolicy
from transformers import TrainingArguments
from transformers.training_args import ParallelMode

from tasks.errors import ParamsError


def shard_on_cpu(accelerator: Accelerator, args: TrainingArguments) -> bool:
    """Whether FSDP was asked for and left out; from here on the accelerator shards.

    Raises:
        ParamsError: there is one process alone; or on CPUs what was asked for is not FSDP2, or
            torch would take a GPU for it.
    """
    if args.fsdp and args.parallel_mode in (
        ParallelMode.NOT_PARALLEL,
        ParallelMode.NOT_DISTRIBUTED,
    ):
        raise ParamsError(
            f"fsdp is {args.fsdp!r}, but this process was started alone and has none to share the "
            "model with; start several (accelerate launch --num_processes 2), or leave fsdp out"
        )
    settings: dict[str, Any] = args.fsdp_plugin_args or {}
    wanted = settings or os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"
    if not wanted or accelerator.distributed_type != DistributedType.MULTI_CPU:
        return False
    plugin = FullyShardedDataParallelPlugin(**settings)
    if plugin.fsdp_version != 2:
        raise ParamsError(
            f"fsdp_version is {plugin.fsdp_version}; on a CPU it must be 2, as in "
            "params/accelerate/fsdp2.yaml"
        )
    found = torch.accelerator.current_accelerator()
    if found is not None and found.type != "cpu":
        raise ParamsError(
            f"FSDP on a CPU was asked for, but this torch is built for {found.type} and would put "
            "the shards there; install torch for CPUs, or train on the device"
        )
    # Both states: every new AcceleratorState copies what PartialState says.
    PartialState().distributed_type = DistributedType.FSDP
    accelerator.state.distributed_type = DistributedType.FSDP
    accelerator.state.fsdp_plugin = plugin
    return True


def keep_sums_wide(accelerator: Accelerator) -> None:
    """Has FSDP compute layers in half precision, and nothing else: gradients are summed over
    processes in float32, rewards leave the model as they are, and tables of positions stay.

    accelerate would round all of these too: its policy, and transformers gives it no other, names
    one dtype for all.
    """
    plugin = getattr(accelerator.state, "fsdp_plugin", None)
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(accelerator.mixed_precision)
    if plugin is None or half is None:
        return
    if plugin.fsdp_version == 2:
        policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32)
    else:
        policy = MixedPrecision(half, reduce_dtype=torch.float32, buffer_dtype=torch.float32)
    plugin.mixed_precision_policy = policy


def whole_again(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Puts whole weights in the place of shards; the model is trained no further.

    `weights`: a full state dict of it, by the names of its parameters, on the host.
    """
    whole: dict[nn.Parameter, nn.Parameter] = {}
    for prefix, module in model.named_modules():
        _leave_shards(module)
        for name, parameter in list(module.named_parameters(recurse=False)):
            full = f"{prefix}.{name}" if prefix else name
            if parameter not in whole:  # tied weights stay tied
                whole[parameter] = nn.Parameter(weights[full], parameter.requires_grad)
            setattr(module, name, whole[parameter])


def _leave_shards(module: nn.Module) -> None:
    """Gives a module back the class that `fully_shard` derived its own from."""
    if isinstance(module, FSDPModule):
        [_, _, original, *_] = type(module).__mro__
        module.__class__ = original
