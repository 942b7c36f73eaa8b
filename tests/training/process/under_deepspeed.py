"""Trains in every process of a launch with ZeRO-3, so that a test can compare it with one process.

accelerate launch --config_file params/accelerate/zero3.yaml ... \
    -m tests.training.process.under_deepspeed BASE CASES_JSON OUT_DIRECTORY

DeepSpeed does on CPUs what it does on GPUs, over gloo, once accelerate does not leave it out.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import torch
import transformers.training_args
from accelerate import PartialState
from datasets import Dataset
from transformers import PreTrainedModel

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.export import export
from tasks.training.model.adapter import lora_config
from tasks.training.model.loading import load_reward_model
from tasks.training.params import LoraParams
from tasks.training.scoring import score
from tests.training.process.leaving import leave_together
from tests.training.tiny import make_rows

SIDES = ("chosen_input_ids", "rejected_input_ids")
HELD_OUT = 9
BEFORE_LAST = "checkpoint-10"


def trained(base, directory, case):
    """A trainer that has trained; `case` may have `rows`, `lora`, `resumes` and `fields`."""
    fields = {
        "gradient_checkpointing": False,
        "bf16": False,
        "learning_rate": 1e-3,
        "num_train_epochs": 3,
        "logging_steps": 1,
        "eval_strategy": "epoch",
        "save_strategy": "steps",
        "save_steps": 5,
        "report_to": "none",
        "disable_tqdm": True,
        **case.get("fields", {}),
    }
    trainer = RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory / "checkpoints"), **fields),
        train_dataset=Dataset.from_list(make_rows(case.get("rows", 40), margin=True)),
        eval_dataset=Dataset.from_list(make_rows(HELD_OUT, seed=1, margin=True)),
        peft_config=lora_config(LoraParams(r=4)) if case.get("lora") else None,
    )
    trainer.train(resume_from_checkpoint="resumes" in case or None)
    return trainer


def rewards_of(directory):
    """Rewards of the held-out pairs by a saved model, `[[chosen, rejected]]`."""
    found = load_reward_model(directory, need_head=True).model.eval()
    held_out = make_rows(HELD_OUT, seed=1, margin=True)
    return [[_reward(found, row[side]) for side in SIDES] for row in held_out]


def _reward(model: PreTrainedModel, ids):
    ids = torch.tensor([ids])
    with torch.no_grad():
        return score(model, ids, torch.ones_like(ids)).item()


def _run(base, directory, case, first):
    trainer = trained(base, directory, case)
    if case.get("lora") is None:
        trainer.save_model(str(directory / "saved"))
    trainer.gather_model()
    if not first:
        return
    export(trainer, directory, 0)
    facts = {"layout": trainer.layout, "log": trainer.state.log_history}
    for name in ("saved", "model"):
        if (directory / name).is_dir():
            facts[name] = rewards_of(directory / name)  # in this process alone
    directory.with_suffix(".json").write_text(json.dumps(facts))


if __name__ == "__main__":
    base, cases, out = map(Path, sys.argv[1:])
    torch.set_num_threads(1)
    transformers.training_args.is_torch_bf16_gpu_available = lambda: True
    first = os.environ["RANK"] == "0"
    for name, case in json.loads(cases.read_text()).items():
        if first and case.get("resumes"):
            kept = out / case["resumes"] / "checkpoints" / BEFORE_LAST
            shutil.copytree(kept, out / name / "checkpoints" / BEFORE_LAST)
        PartialState().wait_for_everyone()
        _run(base, out / name, case, first)
    leave_together()
