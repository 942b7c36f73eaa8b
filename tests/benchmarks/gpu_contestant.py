"""One contestant of the GPU benchmark (`gpu`), in a process of its own: trains, tells its figures.

Told as JSON on standard input: who, size, lengths, steps, warm_up, max_length.
"""

import json
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np

from tests.benchmarks.data import named_for_the_peer
from tests.benchmarks.gpu_meter import Meter, matmul_rate
from tests.benchmarks.gpu_model import plain_tokenizer, random_model, token_budget
from tests.benchmarks.random_pairs import random_pairs

BATCH = 64
"""Pairs in one optimizer step."""
CONTESTANTS = {
    # name: (trainer, checkpointing, how the peer brings rows of like length together)
    "peer_default": ("peer", True, None),
    "peer_best": ("peer", False, "batch_rebalance"),
    "peer_sorted": ("peer", False, "group_by_length"),
    "ours": ("ours", False, None),
    "ours_compiled": ("ours", False, None),
    "peer_compiled": ("peer", False, "group_by_length"),
    "ours_checkpointed": ("ours", True, None),
}
PEERS_PAIRS = {"tiny": 8, "0.6B": 16, "1.7B": 8, "4B": 8}
"""Of one forward pass of the peer without checkpointing: more of them would not fit, nor pad less.
With checkpointing they are its default."""


def run(told: dict[str, Any]) -> dict[str, Any]:
    """One contestant's figures; `told["pairs"]`: of one forward pass, where fewer are to be tried.

    Pairs and tokens a second are those of the steps that were measured, by their tokens: a step of
    long pairs counts as more pairs than one of short ones.
    """
    import torch

    on_gpu = torch.cuda.is_available()
    pairs = random_pairs(told["lengths"], BATCH * told["steps"], told["max_length"])
    meter = Meter(on_gpu, told["warm_up"])
    trainer = _trainer(told, pairs, meter)
    model = trainer.model
    parameters = sum(p.numel() for n, p in model.named_parameters() if "embed_tokens" not in n)
    model.model.register_forward_pre_hook(meter.count, with_kwargs=True)
    trainer.train()
    ours = CONTESTANTS[told["who"]][0] == "ours"
    if ours and trainer.layout != "prefix_shared":
        raise RuntimeError(f"batches were {trainer.layout}; the log says why")
    found = meter.told()
    logged = next(r for r in reversed(trainer.state.log_history) if "loss" in r)
    count = BATCH * told["steps"]
    whole = sum(map(len, [*pairs["chosen_input_ids"], *pairs["rejected_input_ids"]]))
    rate = found["own"] / (_unique_tokens(pairs) if ours else whole) * count / found["seconds"]
    computed = found["computed"] / found["seconds"]
    return {
        "pairs_per_second": rate,
        "tokens_per_second": rate * whole / count,
        "computed_tokens_per_second": computed,
        "mfu": 6 * parameters * computed / matmul_rate() if on_gpu else None,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None,
        "micro_batch": trainer.args.per_device_train_batch_size,
        "budget": getattr(trainer.args, "max_tokens_per_micro_batch", None),
        "halvings": getattr(trainer, "halvings", None),
        "reward_difference": _reward_difference(trainer, pairs) if ours else None,
        "loss": logged["loss"],
        "grad_norm": float(logged["grad_norm"]),
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
    }


def _trainer(told: dict[str, Any], pairs: dict[str, list[Any]], meter: Meter) -> Any:
    trainer_of, checkpointing, _ = CONTESTANTS[told["who"]]
    model = random_model(told["size"])
    fields: dict[str, Any] = {
        "output_dir": "/tmp/reward-pipeline-gpu",
        "max_steps": told["steps"],
        "gradient_checkpointing": checkpointing,
        "bf16": meter.on_gpu,
        "use_cpu": not meter.on_gpu,
        "max_length": told["max_length"],
        "logging_steps": told["steps"],
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "optim": "adamw_torch_fused",
    }
    if told["who"].endswith("compiled"):
        fields["torch_compile"] = True
    elif meter.on_gpu and not checkpointing and find_spec("liger_kernel"):
        no_loss = {"fused_linear_cross_entropy": False, "cross_entropy": False}
        fields |= {"use_liger_kernel": True, "liger_kernel_config": no_loss}
    if trainer_of == "peer":
        from trl import RewardConfig, RewardTrainer

        rows, more = _peers(told, pairs)
    else:
        from tasks.training import RewardConfig, RewardTrainer

        rows, more = _ours(told, pairs, model)
    return RewardTrainer(
        model=model,
        args=RewardConfig(**fields, **more),
        train_dataset=rows,
        processing_class=plain_tokenizer(),
        callbacks=[meter.callback(told["steps"])],
    )


def _peers(told: dict[str, Any], pairs: dict[str, list[Any]]) -> tuple[Any, dict[str, Any]]:
    """Rows as the peer takes them, and the settings of its own."""
    from datasets import Dataset

    _, checkpointing, sampling = CONTESTANTS[told["who"]]
    micro = told.get("pairs") or (8 if checkpointing else PEERS_PAIRS[told["size"]])
    more: dict[str, Any] = {
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": BATCH // micro,
    }
    rows = Dataset.from_dict(named_for_the_peer(pairs))
    if sampling:
        sides = zip(rows["chosen_ids"], rows["rejected_ids"], strict=True)
        rows = rows.add_column("length", [max(map(len, pair)) for pair in sides])
        more["train_sampling_strategy"] = sampling
        more["remove_unused_columns"] = False  # else the column of lengths goes
    return rows, more


def _ours(
    told: dict[str, Any], pairs: dict[str, list[Any]], model: Any
) -> tuple[Any, dict[str, Any]]:
    """Rows as ours takes them, and the settings of its own."""
    from datasets import Dataset

    more: dict[str, Any] = {
        "per_device_train_batch_size": BATCH,
        "preflight": False,
        "layout": "prefix_shared",
    }
    if not CONTESTANTS[told["who"]][1]:
        more["max_tokens_per_micro_batch"] = token_budget(told["size"], model)
    return Dataset.from_dict(pairs), more


def _unique_tokens(pairs: dict[str, list[Any]]) -> int:
    from tasks.training.layout.plan import flat_plan

    sides = zip(pairs["chosen_input_ids"], pairs["rejected_input_ids"], strict=True)
    return sum(len(flat_plan([np.asarray(s) for s in pair], [0, 0]).input_ids) for pair in sides)


def _reward_difference(trainer: Any, pairs: dict[str, list[Any]]) -> float:
    """Largest difference of bfloat16 flat rewards to float32 padded ones, of eight pairs."""
    import torch

    from tasks.training.layout.plan import flat_plan
    from tasks.training.scoring import score, score_flat

    sequences = [np.asarray(i) for side in pairs.values() for i in side[:8]]
    # What trained computes in bfloat16 by itself, until it is taken out of accelerate's forward.
    model = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False).eval()
    device = next(model.parameters()).device
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        flat = score_flat(model, flat_plan(sequences, [*range(8)] * 2))
    exact: list[float] = []
    with torch.no_grad():
        for ids in sequences:
            row = torch.from_numpy(ids)[None].to(device)
            exact.append(float(score(model, row, torch.ones_like(row))))
    return max(abs(a - b) for a, b in zip(flat.tolist(), exact, strict=True))


def main() -> None:
    """Imports what takes long, and runs what it is told then."""
    import trl.trainer.reward_trainer  # noqa: F401

    import tasks.training  # noqa: F401

    print(json.dumps(run(json.loads(sys.stdin.read()))))


if __name__ == "__main__":
    main()
