"""FSDP on CPUs, its precision, and the whole model put together again from its shards.

accelerate 1.15 ignores an FSDP config on CPUs: each process would silently hold the whole model,
though torch's `fully_shard` runs on CPUs (over gloo). So `AcceleratorState` gets here, through its
public attributes, what accelerate sets on GPUs; the rest (wrapping, clipping, saving, loading) is
accelerate's own.
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
    """Turns FSDP on where it was asked for and accelerate ignored it; returns whether it did.

    Raises:
        ParamsError: there is only one process; or, on CPUs, the FSDP asked for is not version 2,
            or this build of torch would shard onto a GPU.
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


def reduce_in_float32(accelerator: Accelerator) -> None:
    """Under FSDP in half precision, only layers compute in it: gradients are reduced over processes
    in float32, and the model's outputs and position tables (buffers) are not rounded.

    accelerate's own policy, which transformers cannot change, uses one dtype for all of these.
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


def unshard(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Replaces the shards of an FSDP model, after training, by whole weights.

    `weights`: its full state dict on the CPU, by parameter name.
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
    """Restores a module's original class, from which `fully_shard` derived another."""
    if isinstance(module, FSDPModule):
        [_, _, original, *_] = type(module).__mro__
        module.__class__ = original
