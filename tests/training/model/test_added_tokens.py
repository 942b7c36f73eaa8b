"""Tokens that training adds, for padding or of a template: trained, saved and loaded again."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from peft import LoraConfig

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.adapter import base_of
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
