"""Fifty steps in a flat layout are the fifty steps of padded batches, within rounding.

The reference is `layout="padded"`: same weights, same pairs, same order.
"""

import logging

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForSequenceClassification, BertConfig

from tasks.training import RewardConfig, RewardTrainer
from tests.training.tiny import QUIET, make_rows, make_tokenizer

STEPS = 50


def run(base, directory, layout, rows, peft_config=None, **fields):
    trainer = RewardTrainer(
        str(base),
        RewardConfig(
            output_dir=str(directory / layout),
            layout=layout,
            **{
                **QUIET,
                "learning_rate": 1e-3,
                "max_steps": STEPS,
                "per_device_train_batch_size": 4,
                "logging_steps": 1,
                **fields,
            },
        ),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[:9]),
        peft_config=peft_config,
    )
    trainer.train()
    losses = [r["loss"] for r in trainer.state.log_history if "loss" in r]
    return trainer, losses, trainer.evaluate()


def test_noise_on_embeddings_is_that_of_padded_batches(base, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        trainer, *_ = run(base, tmp_path, "auto", make_rows(8), max_steps=1, neftune_noise_alpha=5)
    assert trainer.layout == "padded"
    assert "NEFTune" in caplog.text


def ranked(count):
    """Comparisons of three answers each, as their three pairs."""
    rows = []
    for n in range(count):
        prompt = [5 + n % 7, 9, 11, 12]
        answers = [[*prompt, *range(20 + n, 22 + n + k)] for k in range(3)]
        for better, worse in ((0, 1), (0, 2), (1, 2)):
            sides = {"chosen_input_ids": answers[better], "rejected_input_ids": answers[worse]}
            rows.append({**sides, "pair_id": f"{n}-{better}{worse}", "comparison": f"c{n}"})
    return rows


@pytest.mark.parametrize(
    ("fields", "lora"),
    [
        ({}, False),
        pytest.param(
            {"gradient_accumulation_steps": 2, "center_rewards_coefficient": 0.01},
            False,
            marks=pytest.mark.slow,
        ),
        pytest.param({"gradient_checkpointing": True}, True, marks=pytest.mark.slow),
        pytest.param({"loss": {"type": "plackett_luce"}}, False, marks=pytest.mark.slow),
    ],
    ids=["plain", "accumulated", "lora-checkpointed", "comparisons"],
)
def test_the_trajectory_is_that_of_padded_batches(base, tmp_path, fields, lora):
    rows = ranked(40) if "loss" in fields else make_rows(60, margin=True)
    adapter = LoraConfig(r=4, task_type="SEQ_CLS", target_modules="all-linear") if lora else None
    reference, expected, wanted = run(base, tmp_path, "padded", rows, adapter, **fields)
    assert reference.layout == "padded"
    assert len(expected) == STEPS
    assert expected[0] != pytest.approx(expected[-1], rel=1e-3)
    for layout in ("prefix_shared", "padding_free"):
        found, losses, evaluated = run(base, tmp_path, layout, rows, adapter, **fields)
        assert found.layout == layout
        assert losses == pytest.approx(expected, rel=1e-5, abs=1e-6), layout
        for name in ("eval_loss", "eval_margin", "eval_mean_reward", "eval_accuracy"):
            assert evaluated[name] == pytest.approx(wanted[name], rel=1e-5, abs=1e-5), layout


def test_a_model_that_a_flat_row_does_not_fit_is_padded_and_the_log_says_why(tmp_path, caplog):
    tokenizer = make_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config)
    fields = {"use_cpu": True, "report_to": "none", "gradient_checkpointing": False}
    with caplog.at_level(logging.INFO, logger="tasks.training.layout"):
        trainer = RewardTrainer(
            model,
            RewardConfig(output_dir=str(tmp_path), layout="prefix_shared", **fields),
            train_dataset=Dataset.from_list(make_rows(4)),
            processing_class=tokenizer,
        )
    assert trainer.layout == "padded"
    assert "BertForSequenceClassification is an encoder" in caplog.text
