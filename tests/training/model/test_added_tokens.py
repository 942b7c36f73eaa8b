"""Tokens that training adds, for padding or of a template: trained, saved and loaded again."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import IA3Config, LoraConfig
from tokenizers import AddedToken
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tasks.errors import ModelError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.export import save_model
from tasks.training.model.adapter import base_of, merged
from tasks.training.model.padding import embedding
from tests.training.tiny import VOCABULARY, make_rows, make_tokenizer

# peft 0.21 asks under a name that transformers 5.23 calls deprecated, and says what it saves
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*as embedding layers found in `target_modules`"),
    pytest.mark.filterwarnings("ignore:.*as the embedding layer has been resized"),
]

ADAPTERS = {
    "on layers": LoraConfig(r=2, target_modules=["q_proj"]),
    "on the embedding": LoraConfig(r=2, target_modules=["q_proj", "embed_tokens"]),
    "embedding whole": LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens"]),
}


@pytest.fixture(scope="module")
def unpadded(base, tmp_path_factory) -> Path:
    """The base model, whose vocabulary keeps no token for padding."""
    directory = tmp_path_factory.mktemp("unpadded") / "base"
    shutil.copytree(base, directory)
    make_tokenizer(pad=None).save_pretrained(directory)
    return directory


def trainer_of(model, directory, rows=None, **fields):
    extra = {name: fields.pop(name) for name in ("peft_config",) if name in fields}
    config = RewardConfig(
        output_dir=str(directory),
        use_cpu=True,
        gradient_checkpointing=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        learning_rate=1e-2,
        max_steps=2,
        save_strategy="no",
        report_to="none",
        **fields,
    )
    rows = Dataset.from_list(make_rows(8) if rows is None else rows)
    return RewardTrainer(str(model), config, train_dataset=rows, **extra)


def rewards(trainer, rows):
    return trainer.predict(rows).predictions


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_a_warm_start_where_the_embedding_has_grown(unpadded, tmp_path, name):
    first = trainer_of(unpadded, tmp_path / "a", peft_config=ADAPTERS[name])
    assert embedding(base_of(first.model)).num_embeddings == VOCABULARY + 1
    first.train()
    first.save_model(str(tmp_path / "adapter"))
    second = trainer_of(tmp_path / "adapter", tmp_path / "b")
    rows = second.train_dataset
    assert np.array_equal(rewards(second, rows), rewards(first, rows))
    second.train()


TALKS = [
    {
        "prompt": [{"role": "user", "content": f"w{i} w{i + 1}"}],
        "chosen": [{"role": "assistant", "content": f"w{40 + i} w{41 + i}"}],
        "rejected": [{"role": "assistant", "content": f"w{20 + i}"}],
    }
    for i in range(8)
]
TEMPLATE = (
    "{% for m in messages %}<|turn|>{{ m.role }} {{ m.content }}<|over|>{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>{% endif %}"
)


@pytest.fixture(scope="module")
def with_turns(tmp_path_factory) -> Path:
    """A tokenizer whose template writes two tokens that the base model's does not have."""
    directory = tmp_path_factory.mktemp("with-turns")
    tokenizer = make_tokenizer()
    tokenizer.add_tokens([AddedToken(t, special=True) for t in ("<|turn|>", "<|over|>")])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(directory)
    return directory


@pytest.mark.parametrize("name", [*ADAPTERS, "some tokens alone"])
def test_adapters_train_the_rows_of_the_tokens_that_a_template_brings(
    base, with_turns, tmp_path, name
):
    some = LoraConfig(r=2, target_modules=["q_proj"], trainable_token_indices=[1, 5])
    fields = {"chat_template_path": str(with_turns), "peft_config": ADAPTERS.get(name, some)}
    trainer = trainer_of(base, tmp_path / "a", TALKS, **fields)
    added = trainer.processing_class.convert_tokens_to_ids(["<|turn|>", "<|over|>"])
    assert added == [VOCABULARY, VOCABULARY + 1]
    trainer.train()
    trainer.save_model(str(tmp_path / "adapter"))
    expected = rewards(trainer, trainer.train_dataset)
    warm = trainer_of(tmp_path / "adapter", tmp_path / "b", TALKS)
    assert np.array_equal(rewards(warm, warm.train_dataset), expected)
    save_model(merged(trainer.model), trainer.processing_class, tmp_path / "merged")
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    turn, over = stock.get_input_embeddings().weight[added]
    assert not torch.allclose(turn, over, atol=1e-3)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "merged")
    talks = [[*row["prompt"], *row[side]] for side in ("chosen", "rejected") for row in TALKS]
    texts = [tokenizer.apply_chat_template(talk, tokenize=False) for talk in talks]
    with torch.no_grad():
        found = [stock(**tokenizer(text, return_tensors="pt")).logits[0, 0] for text in texts]
    assert np.allclose(np.reshape(found, (2, -1)).T, expected, atol=1e-5)


def test_an_adapter_that_is_there_takes_no_new_tokens_into_an_embedding_of_its_own(
    base, with_turns, tmp_path
):
    trainer = trainer_of(base, tmp_path, peft_config=ADAPTERS["embedding whole"])
    trainer.save_model(str(tmp_path / "adapter"))
    said = (
        rf"needs {VOCABULARY + 2} rows of the embedding, which has {VOCABULARY} within an adapter"
    )
    with pytest.raises(ModelError, match=f"{said}.*merge that adapter"):
        trainer_of(tmp_path / "adapter", tmp_path, TALKS, chat_template_path=str(with_turns))


@pytest.mark.parametrize("kind", ["warm start", "IA3"])
def test_new_tokens_that_an_adapter_leaves_frozen_are_told(
    base, with_turns, tmp_path, caplog, kind
):
    model, fields = (
        base,
        {"peft_config": IA3Config(target_modules=["v_proj"], feedforward_modules=[])},
    )
    if kind == "warm start":
        model, fields = tmp_path / "adapter", {}
        trainer_of(base, tmp_path, peft_config=ADAPTERS["on layers"]).save_model(str(model))
    with caplog.at_level("WARNING"):
        trainer_of(model, tmp_path, TALKS, chat_template_path=str(with_turns), **fields)
    assert "trains no rows of the embedding: those of the 2 tokens" in caplog.text
    assert "modules_to_save=['embed_tokens']" in caplog.text
