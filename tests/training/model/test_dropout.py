"""disable_dropout reaches dropout wherever a family keeps it, and no prompt shares what is left."""

import pytest
import torch
from datasets import Dataset
from transformers import AutoConfig, AutoModelForSequenceClassification

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.scoring import score
from tests.training.tiny import QUIET, VOCABULARY, make_rows, make_tokenizer

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "num_labels": 1,
    "pad_token_id": 0,
}
KEPT = {
    "in modules": ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "attn_pdrop": 0.5}),
    "as a number": ("llama", {**SIZES, "attention_dropout": 0.5}),
    "in the config, read by attention": ("persimmon", {**SIZES, "attention_dropout": 0.5}),
    "in the config, read by layers": (
        "falcon",
        {**SIZES, "hidden_dropout": 0.5, "alibi": False, "new_decoder_architecture": True},
    ),
}


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("disabled", [True, False])
def test_dropout_is_off_or_counted_as_chance_wherever_a_family_keeps_it(tmp_path, kept, disabled):
    family, fields = KEPT[kept]
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SIZES, **fields})
    trainer = RewardTrainer(
        AutoModelForSequenceClassification.from_config(config),
        RewardConfig(**{**QUIET, "output_dir": str(tmp_path), "disable_dropout": disabled}),
        train_dataset=Dataset.from_list(make_rows(8)),
        processing_class=make_tokenizer(),
    )
    ids = torch.tensor([[5, 9, 44, 30, 12, 8]])
    once, again = (score(trainer.model.train(), ids, torch.ones_like(ids)) for _ in range(2))
    assert torch.equal(once, again) is disabled
    if not disabled:
        assert trainer.layout == "padded"
    elif not kept.startswith("in the config"):
        [asked] = {name for name in fields if "drop" in name}
        assert getattr(trainer.model.config, asked) == 0.5
