"""Rewards are read at the last token by length, in float32, as the saved model gives them."""

import platform

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, BertConfig, GPT2Config, T5Config
from transformers.models.bert import BertForSequenceClassification
from transformers.models.gpt2 import GPT2ForSequenceClassification
from transformers.models.t5 import T5ForSequenceClassification

from tasks.errors import ModelError
from tasks.training.model.loading import load_reward_model
from tasks.training.model.products import OneDnnLinear
from tasks.training.scoring import last_token, read_by_length, score
from tests.training.stage3 import models_dealt_out
from tests.training.tiny import EOS, PAD, make_model, make_tokenizer


def padded(sequences, pad=PAD):
    length = max(map(len, sequences))
    ids = torch.tensor([s + [pad] * (length - len(s)) for s in sequences])
    mask = torch.tensor([[1] * len(s) + [0] * (length - len(s)) for s in sequences])
    return ids, mask


SEQUENCES = [[5, 9, 11, EOS], [7, EOS], [EOS, 8, 4, 30, 12, EOS], [13]]


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_rewards_equal_the_stock_model_on_the_same_padded_batch(tmp_path, family):
    reward = load_reward_model(make_model(tmp_path / "base", family), seed=3)
    reward.model.save_pretrained(tmp_path / "saved")
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    ids, mask = padded(SEQUENCES)
    with torch.no_grad():
        ours = score(reward.model.eval(), ids, mask)
        theirs = stock.eval()(input_ids=ids, attention_mask=mask).logits[:, 0]
    assert ours.dtype == torch.float32
    assert ours.shape == (4,)
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_on_x86_the_layers_of_a_loaded_body_compute_by_onednn_and_with_fewer_passes(base):
    model = load_reward_model(base).model
    x86 = platform.machine() in ("x86_64", "AMD64") and torch.backends.mkldnn.is_available()
    layers = [module for module in model.model.modules() if isinstance(module, nn.Linear)]
    norms = [module for module in model.modules() if type(module).__name__ == "Qwen3RMSNorm"]
    gated = [layer.mlp for layer in model.model.layers]
    assert {type(layer) is OneDnnLinear for layer in layers} == {x86}
    assert type(model.score) is nn.Linear
    assert {"forward" in vars(module) for module in (*norms, *gated)} == {x86}


@pytest.mark.parametrize("family", ["qwen3", "bert"])
def test_a_model_that_is_pickled_whole_scores_alike_by_weights_of_its_own(tmp_path, family):
    if family == "bert":
        stock = BertForSequenceClassification(
            BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                       intermediate_size=48, num_labels=1)
        )  # fmt: skip
        read_by_length(stock)
    else:
        stock = load_reward_model(make_model(tmp_path / "base", family), seed=3).model
    torch.save(stock.eval(), tmp_path / "whole.pt")
    again = torch.load(tmp_path / "whole.pt", weights_only=False)
    with torch.no_grad():
        expected = score(stock, *padded(SEQUENCES))
        assert torch.equal(score(again, *padded(SEQUENCES)), expected)
        for parameter in stock.parameters():
            parameter.zero_()
        assert torch.equal(score(again, *padded(SEQUENCES)), expected)


def test_reward_of_text_with_the_padding_id_inside_is_read_at_its_last_token(base):
    model = load_reward_model(base, seed=3).model.eval()
    model.config.pad_token_id = EOS  # the fallback of other trainers: pad == eos
    model.config.get_text_config().pad_token_id = EOS
    with torch.no_grad():
        apart = score(model, *padded(SEQUENCES, pad=PAD))
        same = score(model, *padded(SEQUENCES, pad=EOS))
        alone = torch.cat([score(model, *padded([s])) for s in SEQUENCES])
        shorter = score(model, *padded([s[:-1] or s for s in SEQUENCES]))
    assert torch.allclose(apart, same, atol=1e-6)
    assert torch.allclose(apart, alone, atol=1e-6)
    assert not torch.isclose(apart[0], shorter[0], atol=1e-4)


def test_last_token_is_found_with_padding_on_either_side():
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [1, 0, 0, 0]])
    assert last_token(mask).tolist() == [1, 3, 3, 0]


def test_under_bfloat16_the_head_and_the_rewards_are_float32(base):
    model = load_reward_model(base, dtype="bfloat16", seed=3).model.eval()
    assert model.model.embed_tokens.weight.dtype == torch.bfloat16
    assert model.score.weight.dtype == torch.float32
    ids, mask = padded(SEQUENCES)
    with torch.no_grad():
        rewards = score(model, ids, mask)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            under_autocast = score(load_reward_model(base, seed=3).model.eval(), ids, mask)
    for values in (rewards, under_autocast):
        assert values.dtype == torch.float32
        # on bfloat16's grid every value would survive the round trip
        assert not torch.equal(values, values.bfloat16().float())


@pytest.mark.parametrize("family", ["qwen3", "bert"])
def test_an_engine_may_halve_every_weight_and_decoders_rewards_stay_float32(tmp_path, family):
    model = load_reward_model(saved_encoder(tmp_path) if family == "bert" else make_model(tmp_path))
    model = model.model.eval()
    ids, mask = padded(SEQUENCES)
    with torch.no_grad():
        wide = score(model, ids, mask)
        model.bfloat16()  # as DeepSpeed's engine does, the head included
        rewards = score(model, ids, mask)
    assert rewards.dtype == torch.float32
    assert rewards == pytest.approx(wide, abs=2e-2)
    if family == "qwen3":  # one product, which needs no other weights to be wide
        assert not torch.equal(rewards, rewards.bfloat16().float())
    score(model, ids, mask).sum().backward()
    assert all(
        head.grad.isfinite().all() for head in model.get_submodule(HEADS[family]).parameters()
    )


HEADS = {"qwen3": "score", "bert": "classifier"}


def saved_encoder(directory):
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = BertConfig(vocab_size=64, num_attention_heads=4, num_labels=1, **sizes)
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return directory


def test_a_body_under_another_name_is_read_alike():
    config = GPT2Config(
        vocab_size=64, n_embd=32, n_layer=1, n_head=2, n_positions=32, num_labels=1, pad_token_id=0
    )
    config.bos_token_id = config.eos_token_id = EOS
    torch.manual_seed(0)
    model = GPT2ForSequenceClassification(config).eval()
    ids, mask = padded(SEQUENCES)
    with torch.no_grad():
        stock = model(input_ids=ids, attention_mask=mask).logits[:, 0]
        read_by_length(model)
        assert torch.allclose(score(model, ids, mask), stock, atol=1e-5)


def test_an_encoder_with_decoder_and_a_model_with_two_labels_are_refused(base):
    small = T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(ModelError, match="an encoder and a decoder"):
        read_by_length(T5ForSequenceClassification(small))
    two = AutoModelForSequenceClassification.from_pretrained(base, num_labels=2)
    with pytest.raises(ModelError, match="with 2 labels is no reward model"):
        read_by_length(two)


def test_a_model_is_loaded_whole_also_where_a_trainer_deals_its_own_out(base):
    alone = load_reward_model(base, seed=3)
    with models_dealt_out():
        loaded = load_reward_model(base, seed=3)
    assert loaded.head == alone.head
    for one, other in zip(alone.model.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(one, other)
