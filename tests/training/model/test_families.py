"""Every family trains, is saved, and scores in transformers' own class as it scores here."""

import json

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    XLNetConfig,
)

from tasks.artifact import Store
from tasks.errors import ModelError, TrainingError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.families import check_padding_unseen, check_positions
from tasks.training.model.loading import load_reward_model
from tasks.training.model.positions import OFFSET, positions
from tasks.training.scoring import head_modules, read_by_length, score
from tests.training.run_stage import stage_step
from tests.training.tiny import EOS, PAD, VOCABULARY, make_rows, make_tokenizer, write_pairs

BASE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 128,
    "pad_token_id": PAD,
    "bos_token_id": None,
    "eos_token_id": EOS,
}
GROUPED = {**BASE, "num_key_value_heads": 2, "head_dim": 8}
DECODERS = {
    "llama": GROUPED,
    "qwen2": {**BASE, "num_key_value_heads": 2},
    "qwen3": GROUPED,
    "qwen3_moe": {
        **GROUPED,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    },
    "gemma": GROUPED,
    "gemma2": GROUPED,
    "gemma3_text": {**GROUPED, "sliding_window": 8},
    "mistral": GROUPED,
    "phi": BASE,
    "phi3": {**BASE, "num_key_value_heads": 2},
    "gpt2": {
        "vocab_size": VOCABULARY,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 128,
        "pad_token_id": PAD,
        "bos_token_id": EOS,
        "eos_token_id": EOS,
    },
}
ENCODERS = {
    "bert": BASE,
    "roberta": {**BASE, "max_position_embeddings": 130},
    "xlm-roberta": {**BASE, "max_position_embeddings": 130},
    "modernbert": {**BASE, "cls_token_id": 2, "sep_token_id": EOS},
    "deberta": BASE,
    "deberta-v2": BASE,
}
FAMILIES = DECODERS | ENCODERS


def base_of(family, directory, pad="<|pad|>"):
    """A base model without a reward head, saved as families save theirs."""
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.for_model(family, **FAMILIES[family]))
    model.save_pretrained(directory)
    tokenizer = make_tokenizer(pad)
    if pad is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(directory)
    return directory


def trained(directory, output, **fields):
    args = RewardConfig(
        output_dir=str(output),
        use_cpu=True,
        gradient_checkpointing=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        **fields,
    )
    rows = Dataset.from_list(make_rows(16))
    trainer = RewardTrainer(str(directory), args, train_dataset=rows)
    trainer.train()
    return trainer


@pytest.mark.parametrize(
    ("family", "pad"),
    [(f, p) for f in FAMILIES for p in ("<|pad|>", None) if p or "roberta" not in f],
)
def test_a_trained_model_scores_in_transformers_as_it_does_here(tmp_path, family, pad):
    trainer = trained(base_of(family, tmp_path / "base", pad), tmp_path)
    assert trainer.head.origin == "new"
    trainer.save_model(str(tmp_path / "saved"))
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    again = load_reward_model(tmp_path / "saved", need_head=True)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert tokenizer.pad_token_id == stock.config.pad_token_id != EOS
    sequences = [[5, 9, 44, EOS], [7, EOS], [EOS, 8, 41, 30, 12, EOS], [13, 14, 15]]
    batch = tokenizer.pad({"input_ids": sequences}, padding_side="right", return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    with torch.no_grad():
        ours = score(trainer.model.eval(), ids, mask)
        reloaded = score(again.model.eval(), ids, mask)
        theirs = stock(input_ids=ids, attention_mask=mask).logits[:, 0]
    assert torch.equal(ours, reloaded)
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert len(set(ours.tolist())) == 4


@pytest.mark.parametrize("family", ["llama", "bert", "xlm-roberta", "modernbert", "deberta-v2"])
def test_under_bfloat16_every_part_of_a_head_computes_and_stays_in_float32(tmp_path, family):
    base = base_of(family, tmp_path / "base")
    model = load_reward_model(base, dtype="bfloat16", seed=3).model.eval()
    seen = {}
    for name, module in head_modules(model).items():
        assert {p.dtype for p in module.parameters()} == {torch.float32}, name
        module.register_forward_hook(lambda *given, name=name: seen.update({name: given[2].dtype}))
    assert model.get_input_embeddings().weight.dtype == torch.bfloat16
    ids = torch.tensor([[5, 9, 44, EOS], [7, 8, EOS, PAD]])
    with torch.no_grad():
        rewards = score(model, ids, (ids != PAD).long())
    assert set(seen.values()) == {torch.float32}
    assert set(seen) == set(head_modules(model))
    assert not torch.equal(rewards, rewards.bfloat16().float())
    trainer = trained(base, tmp_path, bf16=True)
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    # the head of XLM-RoBERTa comes first, and is float32 all the same
    trainer = trained(base, tmp_path, model_init_kwargs={"dtype": "bfloat16"})
    assert trainer.model.get_input_embeddings().weight.dtype == torch.bfloat16


@pytest.mark.catalogue(111)
@pytest.mark.parametrize("family", ENCODERS)
def test_the_new_head_of_an_encoder_comes_from_the_seed_and_is_trained_and_kept(tmp_path, family):
    base = base_of(family, tmp_path / "base")
    first, second = (load_reward_model(base, seed=5).head for _ in range(2))
    assert first == second
    assert first.origin == "new"
    assert load_reward_model(base, seed=6).head.sha256 != first.sha256
    with pytest.raises(ModelError, match="has no score head"):
        load_reward_model(base, need_head=True)
    trainer = trained(base, tmp_path)
    trainer.save_model(str(tmp_path / "saved"))
    warm = load_reward_model(tmp_path / "saved", seed=9, need_head=True)
    assert warm.head.origin == "loaded"
    assert warm.head.sha256 != first.sha256


@pytest.mark.parametrize(
    ("family", "heads", "own"),
    [
        ("distilbert", AutoModelForMaskedLM, "vocab_transform."),
        ("electra", AutoModelForPreTraining, "discriminator_predictions."),
        ("electra", AutoModelForMaskedLM, "generator_predictions."),
        ("albert", AutoModelForPreTraining, "sop_classifier."),
        ("xlm", AutoModelForMaskedLM, "pred_layer."),
        ("biogpt", AutoModelForCausalLM, "output_projection."),
    ],
)
def test_the_heads_of_pretraining_are_left_behind_as_the_hub_has_them(tmp_path, family, heads, own):
    torch.manual_seed(0)
    sizes = {**BASE, "embedding_size": 32, "tie_word_embeddings": False}
    pretrained = heads.from_config(AutoConfig.for_model(family, **sizes))
    pretrained.save_pretrained(tmp_path)
    assert any(name.startswith(own) for name in load_file(tmp_path / "model.safetensors"))
    loaded = load_reward_model(tmp_path)
    assert loaded.head.origin == "new"
    before = pretrained.get_input_embeddings().weight
    assert torch.equal(loaded.model.get_input_embeddings().weight, before)


def test_an_encoder_with_a_decoder_is_refused_before_its_weights_are_compared(tmp_path):
    small = BartConfig(**BASE, d_model=16, encoder_layers=1, decoder_layers=1)
    BartForConditionalGeneration(small).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="has an encoder and a decoder"):
        load_reward_model(tmp_path)


@pytest.mark.parametrize("family", ["xlnet", "fnet", "yoso", "convbert", "nystromformer"])
def test_a_family_whose_reward_sees_padding_says_so_before_training(family):
    """Also where a new head's small rewards make little of it: it grows with them."""
    torch.manual_seed(0)
    config = XLNetConfig(vocab_size=64, d_model=32, n_layer=1, n_head=2, d_inner=32, num_labels=1)
    if family != "xlnet":
        config = AutoConfig.for_model(family, **{**BASE, "bos_token_id": 2}, num_labels=1)
    model = AutoModelForSequenceClassification.from_config(config)
    read_by_length(model)
    with pytest.raises(ModelError, match="once they are padded: the family pools its reward"):
        check_padding_unseen(model, PAD)


@pytest.mark.parametrize("count", [2, 3, 4, 13, 14])
def test_a_family_is_looked_at_with_as_few_tokens_as_there_are(count):
    fields = {**BASE, "vocab_size": count, "eos_token_id": None, "num_labels": 1}
    for family, sees in (("bert", False), ("fnet", True)):
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(
            AutoConfig.for_model(family, **fields)
        )
        read_by_length(model)
        if not sees:
            check_padding_unseen(model, PAD)
            continue
        with pytest.raises(ModelError, match="once they are padded: the family pools its reward"):
            check_padding_unseen(model, PAD)


def test_roberta_counts_positions_from_its_padding_id_and_cannot_be_given_another(tmp_path):
    base = base_of("roberta", tmp_path / "base", pad=None)
    with pytest.raises(TrainingError, match="after it has been saved and loaded"):
        trained(base, tmp_path)


def test_a_family_that_cannot_compute_in_the_dtype_says_so_before_training(tmp_path):
    base = base_of("deberta", tmp_path / "base")
    with pytest.raises(ModelError, match=r"cannot score three tokens in torch\.bfloat16"):
        trained(base, tmp_path, model_init_kwargs={"dtype": "bfloat16"})


def test_a_model_that_cannot_score_as_it_is_configured_says_so_before_training():
    fields = {**BASE, "languages": ["en_XX", "de_DE"], "num_labels": 1}
    model = AutoModelForSequenceClassification.from_config(AutoConfig.for_model("xmod", **fields))
    read_by_length(model)
    with pytest.raises(
        ModelError, match=r"in torch\.float32: .*language.*; change what its config"
    ):
        check_padding_unseen(model, PAD)


def test_a_family_that_trains_on_rows_of_certain_lengths_alone_says_so_before_training(tmp_path):
    fields = {"axial_pos_embds": False, "attn_layers": ["local"], "local_attn_chunk_length": 4}
    config = AutoConfig.for_model("reformer", **BASE, **fields, num_labels=1)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "base")
    make_tokenizer().save_pretrained(tmp_path / "base")
    with pytest.raises(
        ModelError, match=r"Reformer\w+ trains on rows of certain lengths alone; use"
    ):
        trained(tmp_path / "base", tmp_path)


def test_a_family_without_a_sequence_classifier_says_so_before_training(tmp_path):
    config = {"model_type": "mamba", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"")
    make_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"family 'mamba', for which transformers .* no"):
        load_reward_model(tmp_path)


@pytest.mark.catalogue(117)
@pytest.mark.parametrize(("family", "held"), [("bert", 16), ("gpt2", 16), ("roberta", 15)])
def test_a_row_longer_than_the_positions_is_refused_before_training(tmp_path, family, held):
    fields = {"n_positions": 16} if family == "gpt2" else {"max_position_embeddings": 16}
    config = AutoConfig.for_model(family, **{**FAMILIES[family], **fields})
    model = AutoModel.from_config(config)
    model.save_pretrained(tmp_path / "base")
    make_tokenizer().save_pretrained(tmp_path / "base")
    loaded = load_reward_model(tmp_path / "base").model
    assert positions(loaded.config) == held
    longest = [{**row, "chosen_input_ids": [5] * held} for row in make_rows(4)]
    check_positions(loaded, Dataset.from_list(longest), "train")
    rows = [{**row, "chosen_input_ids": [5] * 30} for row in make_rows(4)]
    args = RewardConfig(output_dir=str(tmp_path), use_cpu=True)
    told = f"a row of 30 tokens, but .* takes {held}: the model has no positions for more"
    with pytest.raises(ModelError, match=told):
        RewardTrainer(str(tmp_path / "base"), args, train_dataset=Dataset.from_list(rows))


@pytest.mark.parametrize("family", OFFSET)
def test_a_family_whose_positions_follow_its_padding_takes_as_many_tokens_as_are_said(family):
    fields = {**BASE, "max_position_embeddings": 16, "pad_token_id": 1, "num_labels": 1}
    if family == "xmod":
        fields |= {"languages": ["en_XX"], "default_language": "en_XX"}
    if family == "longformer":  # it pads rows to whole windows
        fields["attention_window"] = 4
    if family == "esm":
        fields |= {"mask_token_id": 4, "position_embedding_type": "absolute"}
    config = AutoConfig.for_model(family, **fields)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    held = positions(model.config)
    assert held == 14
    assert model(torch.full((1, held), 5)).logits.isfinite().all()
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, held + 1), 5))


@pytest.mark.slow
def test_a_held_out_row_longer_than_the_positions_is_refused_before_training(tmp_path):
    """Also where training does not look at the held-out pairs: evaluation does."""
    base_of("gpt2", tmp_path / "base")
    pairs = write_pairs(tmp_path / "pairs", make_rows(8), "train")
    long = [{**row, "chosen_input_ids": [5] * 200} for row in make_rows(4)]
    write_pairs(pairs, long, "eval")
    store = Store(tmp_path / "data")
    with pytest.raises(TrainingError, match="the eval dataset has a row of 200 tokens, but GPT2"):
        store.obtain(stage_step(tmp_path / "base", pairs, {"device": "cpu"}))
    assert not [*tmp_path.rglob("checkpoint-*")]


def test_a_family_without_gradient_checkpointing_is_told_or_trains_without(tmp_path):
    sizes = {"embedding_size": 16, "pad_token_id": PAD, "num_labels": 1}
    made = AutoConfig.for_model("albert", **{**BASE, **sizes})
    AutoModelForSequenceClassification.from_config(made).save_pretrained(tmp_path / "base")
    make_tokenizer().save_pretrained(tmp_path / "base")
    rows = Dataset.from_list(make_rows(8))
    given = {"output_dir": str(tmp_path), "use_cpu": True, "report_to": "none", "max_steps": 1}
    asked = RewardConfig(**given, gradient_checkpointing=True)
    with pytest.raises(ModelError, match=r"Albert\w+ has no gradient check.*checkpointing=False"):
        RewardTrainer(str(tmp_path / "base"), asked, train_dataset=rows)
    left_to_us = RewardConfig(**given, gradient_checkpointing=None)
    left_to_us.gradient_checkpointing = left_to_us.decides_checkpointing = True  # as on a GPU
    trainer = RewardTrainer(str(tmp_path / "base"), left_to_us, train_dataset=rows)
    assert not trainer.args.gradient_checkpointing
    assert trainer.train().global_step == 1
