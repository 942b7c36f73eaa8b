"""What a repetition of a training promises: the same weights, on a GPU up to rounding.

On a CPU every sum has a fixed order, given the threads, the processes and the instruction set that
the kernels are chosen for, unless memory runs short: then sums are cut, where it does. On a GPU
kernels may add in another order each time.
"""

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tasks.training.trainer import RewardTrainer

CONDITION = "The same pairs, base model, settings and versions give the same weights"


def determinism(trainer: "RewardTrainer") -> dict[str, Any]:
    """What was pinned, and whether that makes a repetition bit-exact."""
    args = trainer.args
    on_cpu = args.device.type == "cpu"
    if on_cpu:
        instructions = torch.backends.cpu.get_cpu_capability()
        machine = {"instructions": instructions, "threads": torch.get_num_threads()}
    else:
        machine = {"gpu": torch.cuda.get_device_name(args.device)}
    return {
        "device": args.device.type,
        **machine,
        "dtype": "bfloat16" if args.bf16 else "float16" if args.fp16 else "float32",
        "processes": args.world_size,
        "seed": args.seed,
        "data_seed": args.seed if args.data_seed is None else args.data_seed,
        "full_determinism": args.full_determinism,
        "bit_exact": on_cpu and not trainer.halvings,
    }


def promise(pinned: dict[str, Any]) -> str:
    """The same as a sentence, for people."""
    if pinned["bit_exact"]:
        return f"{CONDITION}, bit for bit, on a CPU with these instructions and as many threads."
    if pinned["device"] == "cpu":
        return f"{CONDITION} up to rounding: memory ran short, and micro-batches were halved."
    return f"{CONDITION} up to rounding: on a GPU, kernels may add in another order each time."
