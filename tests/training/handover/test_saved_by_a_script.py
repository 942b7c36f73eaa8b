"""What a script's `save_model` leaves is loaded as it was trained: rows become the same ids."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig

from tasks.registration import load_reward_model
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.contract import CONTRACT, read_contract, replay
from tests.training.tiny import QUIET


def talk(question, answer):
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def trainer_of(base, directory, policy, **given):
    rows = [
        {"chosen": talk(f"How is {n}?", "Well<|end|>."), "rejected": talk(f"How is {n}?", "Ill.")}
        for n in range(6)
    ]
    fields = {**QUIET, "save_strategy": "steps", "save_steps": 2, "max_steps": 2}
    return RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory), special_tokens_in_text=policy, **fields),
        train_dataset=Dataset.from_list(rows),
        eval_dataset={"held": Dataset.from_list(rows)},
        **given,
    )


@pytest.mark.parametrize("policy", ["encode", "keep"])
def test_a_saved_model_reads_special_tokens_as_in_training(tiny_model_directory, tmp_path, policy):
    trainer = trainer_of(tiny_model_directory, tmp_path, policy)
    trainer.train()
    state = torch.get_rng_state()
    trainer.save_model()
    assert torch.equal(torch.get_rng_state(), state)  # training may go on
    assert (tmp_path / "checkpoint-2" / "optimizer.pt").is_file()
    assert not (tmp_path / "checkpoint-2" / CONTRACT).exists()

    served = load_reward_model(tmp_path, "cpu")  # beside checkpoints and training_args.bin
    row = talk("How is 3?", "Well<|end|>.")
    trained_on = trainer.train_dataset[3]["chosen_input_ids"]
    assert served.token_ids(row) == list(trained_on)
    with torch.inference_mode():
        by_hand = trainer.model(torch.tensor([trained_on])).logits.item()
    np.testing.assert_allclose(served.rewards([row]), [by_hand], atol=1e-6)

    contract = read_contract(tmp_path)
    assert contract["rendering"]["special_tokens_in_text"] == policy
    assert [pair["ids"][0] for pair in contract["pairs"]] == [
        list(ids) for ids in trainer.eval_dataset["held"]["chosen_input_ids"][:4]
    ]
    assert {verdict.difference for verdict in replay(tmp_path)} == {None}


@pytest.mark.parametrize("kind", ["text", "listed text", "talk", "ids"])
def test_a_saved_model_says_whether_its_rows_were_text(tiny_model_directory, tmp_path, kind):
    said = {"talk": talk("How?", "Well."), "ids": [1, 2]}.get(kind, "How? Well.")
    other = {"talk": talk("How?", "Ill."), "ids": [1, 3]}.get(kind, "How? Ill.")
    names = [f"{side}_input_ids" if kind == "ids" else side for side in ("chosen", "rejected")]
    rows = [dict(zip(names, (said, other), strict=True))] * 2
    trainer = RewardTrainer(
        str(tiny_model_directory),
        RewardConfig(output_dir=str(tmp_path), **QUIET),
        train_dataset=rows if kind == "listed text" else Dataset.from_list(rows),
    )
    trainer.save_model()
    trainer.create_model_card()
    formats = {"talk": ["conversational"], "ids": None}.get(kind, ["standard"])
    assert read_contract(tmp_path)["rendering"]["formats"] == formats
    of_text = "# prompt, and answer" in (tmp_path / "README.md").read_text()
    assert of_text == (formats == ["standard"])


def test_a_contract_of_another_model_does_not_stay(tiny_model_directory, tmp_path):
    trainer_of(tiny_model_directory, tmp_path / "run", "encode").save_model(str(tmp_path / "out"))
    assert (tmp_path / "out" / CONTRACT).is_file()
    adapters = LoraConfig(task_type="SEQ_CLS", r=2)
    other = trainer_of(tiny_model_directory, tmp_path / "run", "keep", peft_config=adapters)
    other.save_model(str(tmp_path / "out"))
    assert not (tmp_path / "out" / CONTRACT).exists()


def test_a_contract_that_cannot_be_written_is_told_and_ends_nothing(
    tiny_model_directory, tmp_path, monkeypatch, caplog
):
    def full(*_, **__):
        raise MemoryError("no room for a second copy")

    monkeypatch.setattr("tasks.training.model.loading.load_reward_model", full)
    trainer_of(tiny_model_directory, tmp_path / "run", "keep").save_model(str(tmp_path / "out"))
    assert "gets no reward_contract.json: no room for a second copy" in caplog.text
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert not (tmp_path / "out" / CONTRACT).exists()
