"""With adapters the head is trained and saved, and the merged export scores alike."""

import copy

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import (
    LNTuningConfig,
    LoraConfig,
    PeftConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    get_peft_model,
)
from transformers import AutoConfig, AutoModelForSequenceClassification

from tasks.errors import ModelError, ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.export import save_model
from tasks.training.model.adapter import (
    check_head_is_trained,
    lora_config,
    merged,
    merged_anew,
    with_adapter,
)
from tasks.training.model.loading import load_reward_model
from tasks.training.params import LoraParams
from tasks.training.scoring import head_modules, score
from tests.training.tiny import make_rows, make_tokenizer

# peft 0.21 asks under a name that transformers 5.23 calls deprecated, and says what it saves
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*as embedding layers found in `target_modules`"),
]

CONFIGS = {
    "from params": lora_config(LoraParams(r=4, target_modules=["q_proj", "down_proj"])),
    "DoRA": lora_config(LoraParams(r=4, target_modules=["q_proj"], use_dora=True)),
    "as TRL documents it": LoraConfig(modules_to_save=["score"], target_modules=["q_proj"]),
    "without a word on the head": LoraConfig(r=2, target_modules=["v_proj"]),
    "all linear layers": lora_config(LoraParams(r=2)),
    "on the embedding": lora_config(LoraParams(r=4, target_modules=["q_proj", "embed_tokens"])),
    "some tokens alone": LoraConfig(target_modules=["q_proj"], trainable_token_indices=[1, 5]),
}


def trainer_of(model, directory, **extra):
    config = RewardConfig(
        output_dir=str(directory),
        use_cpu=True,
        gradient_checkpointing=extra.pop("gradient_checkpointing", False),
        disable_tqdm=True,
        dataloader_pin_memory=False,
        learning_rate=1e-2,
        num_train_epochs=3,
        logging_steps=3,
        save_strategy="no",
        report_to="none",
        bf16=extra.pop("bf16", None),
    )
    rows = Dataset.from_list(make_rows(24))
    return RewardTrainer(model, config, train_dataset=rows, **extra)


@pytest.mark.parametrize("name", CONFIGS)
def test_head_is_trained_and_saved_and_the_merged_model_scores_alike(base, tmp_path, name):
    trainer = trainer_of(str(base), tmp_path, peft_config=CONFIGS[name])
    before = trainer.head.sha256
    trainer.train()
    ids = torch.tensor([[5, 9, 44, 1], [7, 30, 21, 1]])
    mask = torch.ones_like(ids)
    with torch.no_grad():
        trained = score(trainer.model.eval(), ids, mask)
    trainer.save_model(str(tmp_path / "adapter"))
    reloaded = PeftModel.from_pretrained(
        load_reward_model(base, seed=99).model, tmp_path / "adapter"
    )
    with torch.no_grad():
        assert torch.equal(score(reloaded.eval(), ids, mask), trained)
    plain = merged(trainer.model)
    save_model(plain, make_tokenizer(), tmp_path / "merged")
    again = load_reward_model(tmp_path / "merged", need_head=True)
    assert again.head.sha256 != before
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    with torch.no_grad():
        assert torch.allclose(score(again.model.eval(), ids, mask), trained, atol=1e-5)
        assert torch.allclose(stock(ids).logits[:, 0], trained, atol=1e-5)


@pytest.mark.parametrize("disabled", [True, False])
def test_disable_dropout_is_of_the_body_and_of_adapters(base, tmp_path, disabled, caplog):
    config = AutoConfig.from_pretrained(base)
    config.attention_dropout, config.num_labels = 0.25, 1
    model = AutoModelForSequenceClassification.from_config(config)
    trainer = RewardTrainer(
        model,
        RewardConfig(output_dir=str(tmp_path), use_cpu=True, disable_dropout=disabled),
        train_dataset=Dataset.from_list(make_rows(8)),
        processing_class=make_tokenizer(),
        peft_config=lora_config(LoraParams(r=4, dropout=0.5, target_modules=["q_proj"])),
    )
    of_adapters = {
        m.p for n, m in trainer.model.named_modules() if n.endswith("lora_dropout.default")
    }
    assert of_adapters == {0.0 if disabled else 0.5}
    of_layers = {getattr(m, "attention_dropout", 0.0) for m in trainer.model.modules()}
    assert of_layers == {0.0} | (set() if disabled else {0.25})
    assert trainer.layout == ("prefix_shared" if disabled else "padded")
    assert ("disable_dropout sets the adapters' dropout to 0" in caplog.text) == disabled


def test_only_adapters_and_head_change(base, tmp_path):
    trainer = trainer_of(str(base), tmp_path, peft_config=CONFIGS["without a word on the head"])
    before = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
    trainer.train()
    changed = {n for n, p in trainer.model.named_parameters() if not torch.equal(p, before[n])}
    assert changed
    assert all("lora_" in n or "score.modules_to_save" in n for n in changed)
    assert any("score.modules_to_save" in n for n in changed)


def test_an_adapter_can_be_trained_further(base, tmp_path):
    first = trainer_of(str(base), tmp_path / "a", peft_config=CONFIGS["from params"])
    first.train()
    first.save_model(str(tmp_path / "adapter"))
    body = load_reward_model(base, seed=42).model
    model = PeftModel.from_pretrained(body, tmp_path / "adapter", is_trainable=True)
    second = trainer_of(model, tmp_path / "b", processing_class=make_tokenizer())
    rows = second.train_dataset
    assert np.array_equal(second.predict(rows).predictions, first.predict(rows).predictions)
    second.train()
    assert second.state.log_history[0]["loss"] < first.state.log_history[0]["loss"]


def test_an_adapter_that_leaves_the_head_frozen_is_refused(base, tmp_path):
    first = trainer_of(str(base), tmp_path / "a", peft_config=CONFIGS["from params"])
    first.save_model(str(tmp_path / "adapter"))
    frozen = PeftModel.from_pretrained(load_reward_model(base).model, tmp_path / "adapter")
    with pytest.raises(ModelError, match="does not train the head 'score'"):
        trainer_of(frozen, tmp_path / "b", processing_class=make_tokenizer())
    with pytest.raises(ParamsError, match="is a PeftModel already"):
        trainer_of(
            frozen,
            tmp_path / "c",
            processing_class=make_tokenizer(),
            peft_config=CONFIGS["from params"],
        )


@pytest.mark.catalogue(116)
def test_a_pattern_of_targets_that_matches_nothing_is_refused_with_the_names_there_are(base):
    config = LoraConfig(target_modules=".*query")
    with pytest.raises(ModelError, match=r"linear layers are \['down_proj', .*'v_proj'\]"):
        with_adapter(load_reward_model(base).model, config, seed=0)


@pytest.mark.catalogue(116)
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"target_modules": ["q_proj", "v_projj"]},
            r"target_modules names 'v_projj', but no module of Qwen3.* did you mean 'v_proj'\?.*"
            r"linear layers are \['down_proj', .*'v_proj'\]",
        ),
        ({"target_modules": ["q_proj", "proj"]}, "target_modules names 'proj'"),
        (
            {"modules_to_save": ["embed_token"]},
            r"modules_to_save names 'embed_token', .* did you mean 'embed_tokens'\?.*"
            r"modules are \['act_fn', .*'embed_tokens', ",
        ),
    ],
)
def test_a_single_name_that_no_module_has_is_refused(base, tmp_path, fields, said):
    with pytest.raises(ModelError, match=said):
        trainer_of(str(base), tmp_path, peft_config=lora_config(LoraParams(r=2, **fields)))


@pytest.mark.parametrize(
    ("target_modules", "adapted"),
    [
        (r".*layers\.1\..*(q|v)_proj", 2),
        (["layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"], 2),
        ({"v_proj", "up_proj"}, 4),
    ],
)
def test_modules_are_named_by_pattern_by_path_and_by_last_name(base, target_modules, adapted):
    config = LoraConfig(r=2, target_modules=target_modules, modules_to_save=["embed_tokens"])
    model = with_adapter(load_reward_model(base).model, config, seed=0)
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert sum("lora_A" in name for name in trained) == adapted
    assert any("embed_tokens.modules_to_save" in name for name in trained)


@pytest.mark.parametrize("task", ["CAUSAL_LM", "SEQ_2_SEQ_LM"])
def test_adapters_for_another_task_are_refused(base, tmp_path, task):
    config = LoraConfig(r=2, target_modules=["q_proj"], task_type=task)
    with pytest.raises(ModelError, match=f"task_type .*{task}.*leave task_type out"):
        trainer_of(str(base), tmp_path, peft_config=config)


@pytest.mark.parametrize("given", ["config", "PeftModel"])
@pytest.mark.parametrize(
    ("config", "said"),
    [
        (PromptTuningConfig(num_virtual_tokens=3, task_type="SEQ_CLS"), "'PROMPT_TUNING' are virt"),
        (PrefixTuningConfig(num_virtual_tokens=3, task_type="SEQ_CLS"), "'PREFIX_TUNING' are virt"),
        (
            LoraConfig(layer_replication=[[0, 2], [1, 2]], task_type="SEQ_CLS"),
            r"layer_replication=\[\[0, 2\], \[1, 2\]\] repeats layers",
        ),
    ],
    ids=["prompt", "prefix", "replicated"],
)
def test_adapters_that_no_plain_model_can_hold_are_refused(base, tmp_path, config, said, given):
    config = copy.deepcopy(config)
    model, options = str(base), {"peft_config": config}
    if given == "PeftModel":
        model = get_peft_model(load_reward_model(base).model, config)
        options = {"processing_class": make_tokenizer()}
    with pytest.raises(ModelError, match=said):
        trainer_of(model, tmp_path, **options)


@pytest.mark.filterwarnings("ignore:.*merging LoRA weights won't be possible")
@pytest.mark.filterwarnings("ignore:Unsupported layer type:UserWarning")
@pytest.mark.parametrize(
    ("config", "said"),
    [
        (LoraConfig(target_modules=["q_proj"], lora_bias=True), "'LORA' .*the base layer has no"),
        (LNTuningConfig(), "'LN_TUNING' cannot be merged: peft leaves modules"),
    ],
    ids=["bias", "norms"],
)
def test_adapters_that_peft_cannot_merge_are_told_before_training(base, tmp_path, config, said):
    with pytest.raises(ModelError, match=said):
        trainer_of(str(base), tmp_path, peft_config=config).train()


def test_adapters_of_a_body_in_bfloat16_train_and_are_merged_in_float32(base, tmp_path):
    trainer = trainer_of(
        load_reward_model(base, dtype="bfloat16").model,
        tmp_path,
        processing_class=make_tokenizer(),
        peft_config=CONFIGS["from params"],
        bf16=True,
        gradient_checkpointing=True,
    )
    trainer.train()
    records = [r for r in trainer.state.log_history if "loss" in r]
    assert records[-1]["loss"] < records[0]["loss"]
    model = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    row = torch.tensor([[5, 9, 44, 1]])
    with torch.no_grad():
        apart = score(copy.deepcopy(model).float().eval(), row, torch.ones_like(row))
        plain = score(merged(model).eval(), row, torch.ones_like(row))
    torch.testing.assert_close(plain, apart, atol=1e-5, rtol=0)


def test_an_adapter_directory_is_a_warm_start(base, tmp_path):
    first = trainer_of(str(base), tmp_path / "a", peft_config=CONFIGS["DoRA"])
    first.train()
    first.save_model(str(tmp_path / "adapter"))
    second = trainer_of(str(tmp_path / "adapter"), tmp_path / "b")
    assert second.head.origin == "loaded"
    rows = second.train_dataset
    assert np.array_equal(second.predict(rows).predictions, first.predict(rows).predictions)
    second.train()
    assert second.state.log_history[0]["loss"] < first.state.log_history[0]["loss"]
    settings = tmp_path / "adapter" / "adapter_config.json"
    settings.write_text(settings.read_text().replace(str(base), ""))
    with pytest.raises(ModelError, match="does not say what its base model is"):
        trainer_of(str(tmp_path / "adapter"), tmp_path / "c")


def test_the_config_of_a_saved_adapter_trains_another_as_it_did_the_first(base, tmp_path):
    first = trainer_of(str(base), tmp_path / "a", peft_config=CONFIGS["DoRA"])
    first.train()
    first.save_model(str(tmp_path / "adapter"))
    config = PeftConfig.from_pretrained(str(tmp_path / "adapter"))
    assert "classifier" in config.modules_to_save  # which no module of the model is called
    second = trainer_of(str(base), tmp_path / "b", peft_config=config)
    second.train()
    assert second.state.log_history[0]["loss"] == first.state.log_history[0]["loss"]
    trained = [
        {n for n, p in t.model.named_parameters() if p.requires_grad} for t in (first, second)
    ]
    assert trained[0] == trained[1]
    rows = first.train_dataset
    assert np.array_equal(second.predict(rows).predictions, first.predict(rows).predictions)


def test_modules_that_a_user_has_saved_whole_are_trained_and_come_back(base, tmp_path):
    config = LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["down_proj"])
    trainer = trainer_of(str(base), tmp_path, peft_config=config)
    before = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
    trainer.train()
    trainer.save_model(str(tmp_path / "adapter"))
    changed = {n for n, p in trainer.model.named_parameters() if not torch.equal(p, before[n])}
    for name in ("down_proj.modules_to_save", "score.modules_to_save", "q_proj.lora_B"):
        assert any(name in n for n in changed), name
    again = PeftModel.from_pretrained(load_reward_model(base, seed=5).model, tmp_path / "adapter")
    ids = torch.tensor([[5, 9, 44, 1]])
    with torch.no_grad():
        rewards = [score(m.eval(), ids, torch.ones_like(ids)) for m in (trainer.model, again)]
        plain = merged_anew(tmp_path / "adapter", load_reward_model(base).model)
        assert torch.equal(*rewards)
        assert torch.allclose(score(plain.eval(), ids, torch.ones_like(ids)), rewards[0], atol=1e-5)
    assert {p.dtype for p in plain.parameters()} == {torch.float32}


def test_an_adapter_is_evaluated_by_the_user_s_metrics_and_shown_in_samples(base, tmp_path, capsys):
    seen = {}

    def compute_metrics(prediction):
        rewards = prediction.predictions
        seen["rewards"] = rewards
        return {"wins": int((rewards.argmax(1) == prediction.label_ids).sum())}

    trainer = trainer_of(
        str(base),
        tmp_path,
        peft_config=CONFIGS["without a word on the head"],
        eval_dataset=make_rows(9, seed=1),
        compute_metrics=compute_metrics,
    )
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_wins"] == round(after["eval_accuracy"] * 9)
    assert after["eval_loss"] < before["eval_loss"]
    assert np.array_equal(seen["rewards"], trainer.predict(trainer.eval_dataset).predictions)
    capsys.readouterr()
    trainer.visualize_samples(2)
    shown = capsys.readouterr().out
    for chosen, rejected in seen["rewards"][:2]:
        assert f"{chosen:.4f}" in shown
        assert f"{rejected:.4f}" in shown


@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v2"])
def test_all_of_an_encoders_head_is_trained_saved_and_merged(tmp_path, family):
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    config = AutoConfig.for_model(
        family, **sizes, num_attention_heads=4, num_labels=1, pad_token_id=0
    )
    stock = AutoModelForSequenceClassification.from_config(config)
    stock.save_pretrained(tmp_path / "base")
    model = load_reward_model(tmp_path / "base").model
    head = {name.rpartition(".")[2] for name in head_modules(model)}
    adapted = with_adapter(model, lora_config(LoraParams(r=4)), seed=0)
    check_head_is_trained(adapted)
    named = [(n.split("."), p) for n, p in adapted.named_parameters() if p.requires_grad]
    assert head == {part for parts, _ in named for part in parts if part in head}
    assert not any("lora_A" in parts and head & {*parts} for parts, _ in named)
    ids = torch.arange(5, 15)[None]
    score(adapted, ids, torch.ones_like(ids)).sum().backward()
    with torch.no_grad():
        for _, parameter in named:
            parameter -= 0.1 * parameter.grad
    adapted.eval()
    wanted = score(adapted, ids, torch.ones_like(ids))
    adapted.save_pretrained(tmp_path / "adapter")
    loaded = PeftModel.from_pretrained(
        load_reward_model(tmp_path / "base").model, tmp_path / "adapter"
    ).eval()
    assert torch.equal(score(loaded, ids, torch.ones_like(ids)), wanted)
    plain = merged(loaded)
    torch.testing.assert_close(score(plain, ids, torch.ones_like(ids)), wanted, atol=1e-6, rtol=0)
