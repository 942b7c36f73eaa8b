"""Where the peer is right, this trainer says the same: TRL 1.16.0's RewardTrainer beside ours.

Same weights, same order of the pairs, float32 on a CPU.
"""

import warnings

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.loading import load_reward_model
from tests.at_length import at_length
from tests.training.tiny import make_rows, make_tokenizer

trl = pytest.importorskip("trl")

STEPS = 50
FIELDS = {
    "use_cpu": True,
    "max_steps": STEPS,
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-3,
    "logging_steps": 1,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "save_strategy": "no",
    "report_to": "none",
    "dataloader_pin_memory": False,
}
CASES = {
    "plain": (False, {}),
    "margin": (True, {}),
    "centered": (False, {"center_rewards_coefficient": 0.05}),
    "accumulated": (False, {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}),
    "margin, centered, cosine, warm-up": (
        True,
        {"center_rewards_coefficient": 0.01, "lr_scheduler_type": "cosine", "warmup_steps": 5},
    ),
}
SAME = ("loss", "accuracy", "margin", "mean_reward", "min_reward", "max_reward", "num_tokens")


@pytest.fixture(scope="module")
def start(base, tmp_path_factory):
    """A reward model with its head, which both load."""
    directory = tmp_path_factory.mktemp("start")
    model = load_reward_model(base, seed=1).model
    model.config.pad_token_id = 0
    model.save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return directory


def peer_trainer(start, directory, rows, **fields):
    names = {"chosen_input_ids": "chosen_ids", "rejected_input_ids": "rejected_ids"}
    kept = (*names, "margin")
    theirs = [{names.get(n, n): row[n] for n in kept if n in row} for row in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trl.RewardTrainer(
            str(start),
            trl.RewardConfig(output_dir=str(directory), bf16=False, **{**FIELDS, **fields}),
            train_dataset=Dataset.from_list(theirs),
            processing_class=make_tokenizer(),
        )


def history(trainer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.train()
    return [r for r in trainer.state.log_history if "learning_rate" in r]


@pytest.mark.parametrize("case", ["plain", *at_length(*[*CASES][1:4]), *[*CASES][4:]])
def test_fifty_steps_follow_the_peer(start, tmp_path, case):
    margin, fields = CASES[case]
    rows = make_rows(4 * 24, margin=margin)  # whole batches: the peer's mean of a rest is another
    peer = peer_trainer(start, tmp_path / "peer", rows, **fields)
    theirs = history(peer)
    ours = RewardTrainer(
        str(start),
        RewardConfig(output_dir=str(tmp_path / "ours"), **{**FIELDS, **fields}),
        train_dataset=Dataset.from_list(rows),
    )
    mine = history(ours)
    assert len(mine) == len(theirs) == STEPS
    for one, other in zip(mine, theirs, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5), one["step"]
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-3)
        assert one["learning_rate"] == other["learning_rate"]
        for name in (
            SAME[1:] if case != "accumulated" else ("accuracy", "mean_reward")
        ):  # its extremes are means
            assert one[name] == pytest.approx(other[name], rel=1e-3, abs=1e-5), name
    trained = dict(peer.model.named_parameters())
    for name, tensor in ours.model.named_parameters():
        assert torch.allclose(tensor, trained[name], atol=2e-5), name
    _scores_as_stock_transformers_does(ours, tmp_path / "saved", rows)


def _scores_as_stock_transformers_does(trainer, directory, rows):
    """The saved model, loaded without this project, on one padded batch."""
    trainer.save_model(str(directory))
    expected = trainer.predict(Dataset.from_list(rows)).predictions
    stock = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    assert stock.config.problem_type == "regression"
    for column, side in enumerate(("chosen_input_ids", "rejected_input_ids")):
        padded = make_tokenizer().pad({"input_ids": [r[side] for r in rows]}, return_tensors="pt")
        with torch.no_grad():
            logits = stock(padded["input_ids"], padded["attention_mask"]).logits[:, 0]
        assert torch.allclose(logits, torch.tensor(expected[:, column]), atol=1e-5, rtol=1e-5)
