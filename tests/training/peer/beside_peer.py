"""Our trainer and TRL's on the same rows and settings."""

import warnings

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification

from tasks.training import RewardConfig, RewardTrainer
from tests.training.tiny import make_tokenizer

FIELDS = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "learning_rate": 1e-2,
    "max_steps": 3,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
}


def ours(model, directory, rows=None, **given):
    options = {k: given.pop(k) for k in ("eval_dataset", "peft_config") if k in given}
    return RewardTrainer(
        str(model),
        RewardConfig(output_dir=str(directory), **{**FIELDS, **given}),
        train_dataset=None if rows is None else Dataset.from_list(rows),
        **options,
    )


def peer(model, directory, rows, eval_rows=None, peft_config=None, tokenizer=None, **given):
    """TRL's trainer on the same rows."""
    trl = pytest.importorskip("trl")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForSequenceClassification.from_pretrained(
            model, num_labels=1, dtype=torch.float32
        )
        return trl.RewardTrainer(
            model,
            trl.RewardConfig(output_dir=str(directory), **{"bf16": False, **FIELDS, **given}),
            train_dataset=Dataset.from_list(rows),
            eval_dataset=None if eval_rows is None else Dataset.from_list(eval_rows),
            processing_class=tokenizer or make_tokenizer(),
            peft_config=peft_config,
        )


def for_peer(rows):
    names = {"chosen_input_ids": "chosen_ids", "rejected_input_ids": "rejected_ids"}
    return [{theirs: row[mine] for mine, theirs in names.items()} for row in rows]


def quiet(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()
