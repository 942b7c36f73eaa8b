"""QLoRA end to end on a CPU: what is trained in four bits is what is saved, merged and scored."""

import json

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BitsAndBytesConfig,
    Qwen3Config,
)

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.export import export
from tasks.training.model.loading import load_reward_model
from tasks.training.model.quantized import compute_exactly, dequantized
from tasks.training.scoring import score
from tests.at_length import at_length
from tests.training.tiny import EOS, PAD, QUIET, VOCABULARY, make_rows, make_tokenizer

pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed: no 4-bit weights here")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:bitsandbytes.*"),
]

IDS = torch.tensor([[5, 9, 44, EOS], [7, 30, 21, EOS]])
FOUR_BITS = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A base model whose rows are as long as a block of quantized weights."""
    directory = tmp_path_factory.mktemp("wide")
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=16,
        max_position_embeddings=128,
        bos_token_id=None,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return directory


def trainer_of(model, directory, quantization=None, **fields):
    usual = {"num_train_epochs": 3, "learning_rate": 1e-2, "logging_steps": 3}
    return RewardTrainer(
        str(model),
        RewardConfig(output_dir=str(directory), **{**QUIET, **usual, **fields}),
        train_dataset=Dataset.from_list(make_rows(24)),
        peft_config=LoraConfig(r=4, target_modules="all-linear"),
        quantization_config=quantization,
    )


def rewards(model):
    with torch.no_grad():
        return score(model.eval(), IDS, torch.ones_like(IDS))


@pytest.mark.parametrize("checkpointing", [True, *at_length(False)])
def test_what_is_trained_in_four_bits_is_what_is_saved_and_merged(wide, tmp_path, checkpointing):
    quantization = BitsAndBytesConfig(**FOUR_BITS)
    fields = {"gradient_checkpointing": checkpointing}
    trainer = trainer_of(wide, tmp_path, quantization, **fields)
    packed = [n for n, p in trainer.model.named_parameters() if p.dtype == torch.uint8]
    assert len(packed) == 14  # seven linear layers in each of two blocks
    trainer.train()
    history = [r["loss"] for r in trainer.state.log_history if "loss" in r]
    assert history[-1] < history[0]
    trained = rewards(trainer.model)
    trainer.save_model(str(tmp_path / "adapter"))
    body = load_reward_model(wide, seed=99, quantization_config=quantization).model
    compute_exactly(body)
    assert torch.equal(rewards(PeftModel.from_pretrained(body, tmp_path / "adapter")), trained)

    export(trainer, tmp_path / "out", 0)
    config = json.loads((tmp_path / "out" / "model" / "config.json").read_text())
    assert "quantization_config" not in config
    again = load_reward_model(tmp_path / "out" / "model", need_head=True).model
    assert {p.dtype for p in again.parameters()} == {torch.float32}
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out" / "model").eval()
    assert torch.allclose(rewards(again), trained, atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(stock(IDS).logits[:, 0], trained, atol=1e-5)


def test_gradients_go_through_the_rounded_body_after_an_evaluation_too(wide, tmp_path):
    init = {"quantization_config": FOUR_BITS}
    model = trainer_of(wide, tmp_path, model_init_kwargs=init, max_steps=1).model
    model.eval()
    rewards(model)  # bitsandbytes would repack the layers here
    found = gradients(model)
    body = load_reward_model(wide, seed=42, quantization_config=BitsAndBytesConfig(**FOUR_BITS))
    model.save_pretrained(tmp_path / "adapter")
    plain = PeftModel.from_pretrained(
        dequantized(body.model), tmp_path / "adapter", is_trainable=True
    )
    expected = gradients(plain.eval())
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        assert torch.allclose(gradient, expected[name], atol=1e-6), name


def gradients(model):
    model.zero_grad()
    score(model, IDS, torch.ones_like(IDS)).sum().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def test_a_run_in_four_bits_goes_on_from_its_checkpoint_in_the_same_bits(wide, tmp_path):
    quantization = BitsAndBytesConfig(**FOUR_BITS)
    fields = {"save_strategy": "steps", "save_steps": 4}
    whole = trainer_of(wide, tmp_path / "run", quantization, **fields)
    whole.train()
    resumed = trainer_of(wide, tmp_path / "run", quantization, **fields)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-4"))
    expected = {n: p for n, p in whole.model.named_parameters() if p.requires_grad}
    for name, parameter in resumed.model.named_parameters():
        assert not parameter.requires_grad or torch.equal(parameter, expected[name]), name


def test_rounded_weights_without_anything_to_train_are_refused(wide, tmp_path):
    arguments = {"args": RewardConfig(output_dir=str(tmp_path), use_cpu=True, report_to="none")}
    rows = Dataset.from_list(make_rows(4))
    with pytest.raises(ParamsError, match="quantized, and no adapters are there to be trained"):
        RewardTrainer(
            str(wide), **arguments, train_dataset=rows, quantization_config=dict(FOUR_BITS)
        )
    with pytest.raises(ParamsError, match=r"load_in_5bit.*expected load_in_4bit or load_in_8bit"):
        RewardTrainer(
            str(wide), **arguments, train_dataset=rows, quantization_config={"load_in_5bit": True}
        )
