"""Early stopping in every process of a launch: undisturbed, killed and resumed, and taken over.

python -m torch.distributed.run --nproc_per_node 2 -m tests.training.process.two_processes_stop \
    BASE OUT_DIRECTORY        with ACCELERATE_USE_FSDP=true in shards
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import torch
from datasets import Dataset
from transformers import EarlyStoppingCallback, TrainerCallback

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.export import exact_history
from tests.training.process.leaving import leave_together
from tests.training.tiny import make_rows

FIELDS = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "preflight": False,
    "report_to": "none",
    "learning_rate": 1e-3,
    "per_device_train_batch_size": 2,
    "max_steps": 20,
    "logging_steps": 3,
    "save_steps": 2,
    "save_total_limit": 2,
    "eval_strategy": "steps",
    "eval_steps": 2,
    "eval_on_start": True,
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_margin",
    "greater_is_better": False,
}


class Die(TrainerCallback):
    """Ends every process after the checkpoint of step 6."""

    def on_save(self, args, state, control, **_):  # noqa: ARG002
        if state.global_step == 6:
            raise KeyboardInterrupt


def run(base, directory, resume, *callbacks):
    """What is left of a run: its history, its checkpoints and the sum of its weights."""
    trainer = RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory), **FIELDS),
        train_dataset=Dataset.from_list(make_rows(40)),
        eval_dataset=Dataset.from_list(make_rows(9, seed=1)),
        callbacks=[EarlyStoppingCallback(4), *callbacks],
    )
    with suppress(KeyboardInterrupt):
        trainer.train(resume_from_checkpoint=resume)
    trainer.gather_model()  # out of its shards, where it is in shards
    main = trainer.is_world_process_zero() or not trainer.sharded
    parameters = trainer.model.parameters() if main else ()
    weights = sum(float(p.detach().double().abs().sum()) for p in parameters)
    left = sorted(path.name for path in Path(directory).glob("checkpoint-*"))
    return [exact_history(trainer.state.log_history), left, weights]


if __name__ == "__main__":
    base, out = map(Path, sys.argv[1:])
    torch.set_num_threads(1)
    found = {"whole": run(base, out / "whole", False)}
    found["killed"] = run(base, out / "run", False, Die())
    found["resumed"] = run(base, out / "run", True)
    found["taken over"] = run(base, out / "run", True)
    rank = os.environ["RANK"]
    (out / f"found_{rank}.json").write_text(json.dumps(found))
    leave_together()
