"""Every snippet about reward training in TRL's documentation, by its import changed.

Models and data of the hub are replaced by tiny local ones; nothing else of a snippet is. Arguments
that keep a test small (steps, no GPU) come on top, from `SMALL`.
"""

import json

import pytest
import torch
from datasets import Dataset, DatasetDict, load_dataset
from peft import LoraConfig, PeftModel, TaskType
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    HfArgumentParser,
)

from tasks.training import DataCollatorForPreference, RewardConfig, RewardTrainer
from tasks.training.model.loading import load_reward_model

# peft 0.21 asks under a name that transformers 5.23 calls deprecated
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

SMALL = {
    "use_cpu": True,
    "max_steps": 2,
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
}
QUESTION = {"role": "user", "content": "What color is the sky?"}
ROWS = {
    "standard, implicit prompt": {
        "chosen": "The sky is blue.",
        "rejected": "The sky is green.",
    },
    "conversational, implicit prompt": {
        "chosen": [QUESTION, {"role": "assistant", "content": "It is blue."}],
        "rejected": [QUESTION, {"role": "assistant", "content": "It is green."}],
    },
    "standard, explicit prompt": {
        "prompt": "The sky is",
        "chosen": " blue.",
        "rejected": " green.",
    },
    "conversational, explicit prompt": {
        "prompt": [QUESTION],
        "chosen": [{"role": "assistant", "content": "It is blue."}],
        "rejected": [{"role": "assistant", "content": "It is green."}],
    },
}


@pytest.fixture(scope="module")
def preferences(tmp_path_factory):
    """A data set of the documented conversational kind, as a file."""
    path = tmp_path_factory.mktemp("preferences") / "train.jsonl"
    row = ROWS["conversational, implicit prompt"] | {"score_chosen": 8.0, "score_rejected": 5.5}
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(8)))
    return str(path)


def small(directory, **fields):
    return RewardConfig(output_dir=str(directory), **{**SMALL, **fields})


def losses(trainer):
    return [record["loss"] for record in trainer.state.log_history if "loss" in record]


def test_quick_start(tiny_model_directory, preferences, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = RewardTrainer(
        model=str(tiny_model_directory),
        train_dataset=load_dataset("json", data_files=preferences, split="train"),
    )
    trainer.train()
    assert trainer.state.global_step == 3  # 8 pairs in one batch, 3 epochs
    assert trainer.args.output_dir == f"{tiny_model_directory.name}-Reward"
    assert trainer.args.gradient_checkpointing
    assert trainer.args.learning_rate == 1e-4


@pytest.mark.parametrize("kind", ROWS)
def test_dataset_formats(tiny_model_directory, tmp_path, kind):
    trainer = RewardTrainer(
        model=str(tiny_model_directory),
        args=small(tmp_path),
        train_dataset=Dataset.from_list([ROWS[kind]] * 4),
    )
    trainer.train()
    assert losses(trainer)[1] < losses(trainer)[0]


def test_arena_rows_are_preprocessed_as_documented(tiny_model_directory, tmp_path):
    said = {"prompt": '["What color is the sky?"]', "response_a": '["Blue"]'}
    said["response_b"] = '["Green"]'
    won = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    names = ("winner_model_a", "winner_model_b", "winner_tie")
    rows = [said | dict(zip(names, who, strict=True)) for who in won]
    dataset = DatasetDict({"train": Dataset.from_list(rows)})

    # Filter out ties
    dataset = dataset.filter(lambda example: example["winner_tie"] == 0)

    # Create 'chosen' and 'rejected' fields based on the winner column
    def response_a_b_to_chosen_rejected(example):
        if example["winner_model_a"] == 1:
            example["chosen"] = example["response_a"]
            example["rejected"] = example["response_b"]
        else:
            example["chosen"] = example["response_b"]
            example["rejected"] = example["response_a"]
        return example

    dataset = dataset.map(response_a_b_to_chosen_rejected)

    # Convert to conversational format
    def make_conversation(example):
        prompt = json.loads(example["prompt"])[0]
        chosen = json.loads(example["chosen"])[0]
        rejected = json.loads(example["rejected"])[0]
        asked = {"role": "user", "content": prompt}
        return {
            "chosen": [asked, {"role": "assistant", "content": chosen}],
            "rejected": [asked, {"role": "assistant", "content": rejected}],
        }

    dataset = dataset.map(make_conversation)
    # Keep only necessary columns
    dataset = dataset.select_columns(["chosen", "rejected"])
    trainer = RewardTrainer(
        str(tiny_model_directory), small(tmp_path), train_dataset=dataset["train"]
    )
    assert len(trainer.train_dataset) == 2
    trainer.train()


def test_model_initialization(tiny_model_directory, preferences, tmp_path):
    training_args = small(tmp_path, model_init_kwargs={"dtype": torch.bfloat16})
    trainer = RewardTrainer(
        str(tiny_model_directory),
        training_args,
        train_dataset=load_dataset("json", data_files=preferences, split="train"),
    )
    assert trainer.model.get_input_embeddings().weight.dtype == torch.bfloat16
    assert trainer.model.score.weight.dtype == torch.float32
    trainer.train()


def test_adapters(tiny_model_directory, preferences, tmp_path):
    dataset = load_dataset("json", data_files=preferences, split="train")
    trainer = RewardTrainer(
        str(tiny_model_directory),
        args=small(tmp_path, learning_rate=1e-3),
        train_dataset=dataset,
        peft_config=LoraConfig(modules_to_save=["score"]),
    )
    trainer.train()
    trainer.save_model(str(tmp_path / "adapter"))

    body = load_reward_model(tiny_model_directory, seed=42).model
    model = PeftModel.from_pretrained(body, tmp_path / "adapter", is_trainable=True)
    further = RewardTrainer(model=model, args=small(tmp_path), train_dataset=dataset)
    further.train()
    assert losses(further)[0] < losses(trainer)[0]


def test_adapters_of_the_older_version(tiny_model_directory, preferences, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_directory)
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model_directory, num_labels=1)
    peft_config = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        inference_mode=False,
        r=8,
        lora_alpha=32,
        lora_dropout=0.1,
    )
    trainer = RewardTrainer(
        model=model,
        args=small(tmp_path),
        processing_class=tokenizer,
        train_dataset=load_dataset("json", data_files=preferences, split="train"),
        peft_config=peft_config,
    )
    trainer.train()
    assert trainer.state.global_step == 2


def test_margin(tiny_model_directory, preferences, tmp_path):
    dataset = load_dataset("json", data_files=preferences, split="train")

    def add_margin(row):
        return {"margin": row["score_chosen"] - row["score_rejected"]}

    without = RewardTrainer(str(tiny_model_directory), small(tmp_path), train_dataset=dataset)
    dataset = dataset.map(add_margin)
    trainer = RewardTrainer(str(tiny_model_directory), small(tmp_path), train_dataset=dataset)
    assert trainer.train_dataset["margin"][0] == 2.5
    without.train()
    trainer.train()
    # rewards start near 0: log(1 + e^2.5) = 2.58 in place of log 2 = 0.69
    assert losses(without)[0] == pytest.approx(0.69, abs=0.1)
    assert losses(trainer)[0] == pytest.approx(2.58, abs=0.1)


def test_centering(tiny_model_directory, preferences, tmp_path):
    dataset = load_dataset("json", data_files=preferences, split="train")
    reward_config = small(tmp_path, center_rewards_coefficient=0.01)
    without = RewardTrainer(str(tiny_model_directory), small(tmp_path), train_dataset=dataset)
    trainer = RewardTrainer(str(tiny_model_directory), reward_config, train_dataset=dataset)
    without.train()
    trainer.train()
    # all pairs are the same one: the sum of its rewards is twice their mean
    pull = 0.01 * (2 * trainer.state.log_history[0]["mean_reward"]) ** 2
    assert pull > 0
    assert losses(trainer)[0] - losses(without)[0] == pytest.approx(pull, abs=1e-6)


def test_rows_of_the_older_version_are_tokenized_beforehand(tiny_model_directory, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_directory)
    chosen, rejected = (tokenizer(f"The sky is {c}.") for c in ("blue", "green"))
    row = {
        "input_ids_chosen": chosen["input_ids"],
        "attention_mask_chosen": chosen["attention_mask"],
        "input_ids_rejected": rejected["input_ids"],
        "attention_mask_rejected": rejected["attention_mask"],
    }
    trainer = RewardTrainer(
        str(tiny_model_directory), small(tmp_path), train_dataset=Dataset.from_list([row] * 4)
    )
    assert trainer.train_dataset[0]["chosen_input_ids"] == chosen["input_ids"]
    trainer.train()


def test_collator():
    collator = DataCollatorForPreference(pad_token_id=0)
    examples = [
        {"chosen_input_ids": [1, 2, 3], "rejected_input_ids": [4, 5], "margin": 0.5},
        {"chosen_input_ids": [6, 7], "rejected_input_ids": [8], "margin": 0.0},
    ]
    batch = collator(examples)
    assert batch["input_ids"].tolist() == [[1, 2, 3], [6, 7, 0], [4, 5, 0], [8, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 0, 0]]
    assert torch.equal(batch["margin"], torch.tensor([0.5, 0.0]))
    plain = collator([{k: v for k, v in e.items() if k != "margin"} for e in examples])
    assert set(plain) == {"input_ids", "attention_mask"}


def test_the_config_can_be_given_on_the_command_line(tmp_path):
    words = ["--output_dir", str(tmp_path), "--use_cpu", "--center_rewards_coefficient", "0.01"]
    words += ["--max_length", "64", "--model_init_kwargs", '{"dtype": "bfloat16"}']
    [config] = HfArgumentParser(RewardConfig).parse_args_into_dataclasses(words)
    assert config.center_rewards_coefficient == 0.01
    assert config.max_length == 64
    assert config.model_init_kwargs == {"dtype": "bfloat16"}
    assert (config.learning_rate, config.logging_steps) == (1e-4, 10)
    assert config.gradient_checkpointing
