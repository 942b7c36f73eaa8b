"""One contestant of the GPU benchmark (`gpu`), in a process of its own: trains, tells its figures.

Told as JSON: who, size, lengths, steps, max_length.
"""

import json
import sys
import time
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np

from tests.benchmarks.data import random_pairs

SHAPES = {
    # hidden, intermediate, layers, heads, key-value heads
    "tiny": (64, 128, 2, 4, 2),
    "0.6B": (1024, 3072, 28, 16, 8),
    "1.7B": (2048, 6144, 28, 16, 8),
    "4B": (2560, 9728, 36, 32, 8),
}
VOCABULARY = 151_936
CONTESTANTS = {
    # name: (trainer, checkpointing, pairs in one forward pass, pairs in one step)
    "peer_default": ("peer", True, 8, 64),
    "peer_best": ("peer", False, 32, 64),
    "ours": ("ours", False, 64, 64),
    "ours_flex": ("ours", False, 64, 64),
    "ours_checkpointed": ("ours", True, 64, 64),
}
WARM_UP = 3


def run(told: dict[str, Any]) -> dict[str, Any]:
    """One contestant's figures."""
    import torch
    from datasets import Dataset

    trainer_of, checkpointing, micro, batch = CONTESTANTS[told["who"]]
    on_gpu = torch.cuda.is_available()
    pairs = random_pairs(told["lengths"], batch * told["steps"], told["max_length"])
    model = _model(told["size"])
    fields: dict[str, Any] = {
        "output_dir": "/tmp/reward-pipeline-gpu",
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": batch // micro,
        "max_steps": told["steps"],
        "gradient_checkpointing": checkpointing,
        "bf16": on_gpu,
        "use_cpu": not on_gpu,
        "max_length": told["max_length"],
        "logging_steps": told["steps"],
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "optim": "adamw_torch_fused",
    }
    clock = _Clock(on_gpu)
    if trainer_of == "peer":
        from trl import RewardConfig, RewardTrainer

        names = {"chosen_input_ids": "chosen_ids", "rejected_input_ids": "rejected_ids"}
        rows = Dataset.from_dict({names[n]: ids for n, ids in pairs.items()})
        if told["who"] == "peer_best":
            rows, settings = _at_its_best(rows)
            fields |= settings
    else:
        from tasks.training import RewardConfig, RewardTrainer
        from tests.benchmarks.flex import use_flex

        rows = Dataset.from_dict(pairs)
        fields["preflight"] = False
        if told["who"] == "ours_flex":
            use_flex()
    trainer: Any = RewardTrainer(
        model=model,
        args=RewardConfig(**fields),
        train_dataset=rows,
        processing_class=_tokenizer(),
        callbacks=[clock.callback()],
    )
    trainer.train()
    seconds = clock.seconds[WARM_UP:]
    tokens = sum(map(len, [*pairs["chosen_input_ids"], *pairs["rejected_input_ids"]]))
    unique = _unique_tokens(pairs)
    per_step = median(seconds)
    parameters = sum(p.numel() for n, p in model.named_parameters() if "embed_tokens" not in n)
    operations = 6 * parameters * unique / told["steps"]
    return {
        "pairs_per_second": batch / per_step,
        "tokens_per_second": tokens / told["steps"] / per_step,
        "computed_tokens_per_second": unique / told["steps"] / per_step,
        "mfu": operations / per_step / _matmul_rate() if on_gpu else None,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None,
        "reward_difference": _reward_difference(model, pairs) if trainer_of == "ours" else None,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
    }


def _at_its_best(rows: Any) -> tuple[Any, dict[str, Any]]:
    """The peer's rows and settings such that rows of like length are batched together."""
    sides = zip(rows["chosen_ids"], rows["rejected_ids"], strict=True)
    settings = {
        "train_sampling_strategy": "group_by_length",
        "remove_unused_columns": False,  # else the column of lengths goes
        "use_liger_kernel": find_spec("liger_kernel") is not None,
    }
    return rows.add_column("length", [max(map(len, pair)) for pair in sides]), settings


class _Clock:
    """Seconds of every optimizer step, the device waited for."""

    def __init__(self, on_gpu: bool) -> None:
        self.on_gpu, self.seconds = on_gpu, list[float]()

    def callback(self) -> Any:
        import torch
        from transformers import TrainerCallback

        clock = self

        class Steps(TrainerCallback):
            def on_step_begin(self, *_: Any, **__: Any) -> None:
                clock.start = time.perf_counter()

            def on_step_end(self, *_: Any, **__: Any) -> None:
                if clock.on_gpu:
                    torch.cuda.synchronize()
                clock.seconds.append(time.perf_counter() - clock.start)

        return Steps()


def _model(size: str) -> Any:
    import torch
    from transformers import AutoModelForSequenceClassification, Qwen3Config

    hidden, inner, layers, heads, key_heads = SHAPES[size]
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        head_dim=hidden // heads if size == "tiny" else 128,
        num_labels=1,
        pad_token_id=0,
    )
    return AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


def _unique_tokens(pairs: dict[str, list[Any]]) -> int:
    from tasks.training.layout.plan import flat_plan

    sides = zip(pairs["chosen_input_ids"], pairs["rejected_input_ids"], strict=True)
    return sum(len(flat_plan([np.asarray(s) for s in pair], [0, 0]).input_ids) for pair in sides)


def _matmul_rate(size: int = 8192, times: int = 20) -> float:
    """Floating-point operations a second of a bfloat16 matrix product on this device."""
    import torch

    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        a @ a
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        a @ a
    torch.cuda.synchronize()
    return times * 2 * size**3 / (time.perf_counter() - start)


def _reward_difference(model: Any, pairs: dict[str, list[Any]]) -> float:
    """Largest difference of bfloat16 flat rewards to float32 padded ones, of eight pairs."""
    import torch

    from tasks.training.layout.plan import flat_plan
    from tasks.training.scoring import score, score_flat

    sequences = [np.asarray(i) for side in pairs.values() for i in side[:8]]
    model.eval()
    device = next(model.parameters()).device
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        flat = score_flat(model, flat_plan(sequences, [*range(8)] * 2))
    exact: list[float] = []
    with torch.no_grad():
        for ids in sequences:
            row = torch.from_numpy(ids)[None].to(device)
            exact.append(float(score(model, row, torch.ones_like(row))))
    return max(abs(a - b) for a, b in zip(flat.tolist(), exact, strict=True))


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
