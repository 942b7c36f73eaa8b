"""A reward model is loaded whole or refused with a sentence that says why."""

import json
import logging
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from huggingface_hub import file_download
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from tasks.errors import ModelError, ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.loading import load_reward_model
from tasks.training.model.padding import fit_tokenizer
from tasks.training.model.score_head import head_digest
from tasks.training.scoring import score
from tasks.training.settings import checks
from tests.training.tiny import EOS, PAD, make_rows, make_tokenizer


def damaged(base, tmp_path, change):
    """A copy of `base` whose tensors went through `change`."""
    directory = tmp_path / "damaged"
    shutil.copytree(base, directory)
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    return directory


def test_a_new_head_depends_on_its_seed_alone(base):
    torch.manual_seed(1)
    first = load_reward_model(base, seed=5)
    before = torch.random.get_rng_state()
    second = load_reward_model(base, seed=5)
    assert first.head.origin == "new"
    assert first.head.sha256 == second.head.sha256
    assert torch.equal(before, torch.random.get_rng_state())
    assert load_reward_model(base, seed=6).head.sha256 != first.head.sha256


def test_a_saved_head_is_kept_on_a_warm_start(base, tmp_path):
    first = load_reward_model(base, seed=5)
    first.model.save_pretrained(tmp_path / "saved")
    again = load_reward_model(tmp_path / "saved", seed=6, need_head=True)
    assert again.head.origin == "loaded"
    assert again.head.sha256 == first.head.sha256 == head_digest(again.model)


@pytest.mark.parametrize(
    "saved", [{}, {"max_shard_size": "20KB"}, {"variant": "tf"}], ids=["whole", "shards", "variant"]
)
def test_the_head_is_read_in_float32_of_the_files_that_are_the_model_s(base, tmp_path, saved):
    model = load_reward_model(base, seed=5).model
    model.save_pretrained(tmp_path, **saved)
    other = {"score.weight": torch.full((1, 32), 9.0)}
    for name in ("a", "model-00007-of-00009", "model.th", "score", "z"):
        save_file(other, tmp_path / f"{name}.safetensors", metadata={"format": "pt"})
    variant = {"variant": saved["variant"]} if "variant" in saved else {}
    for dtype in ("float32", "bfloat16"):
        found = load_reward_model(tmp_path, need_head=True, dtype=dtype, **variant).model
        assert torch.equal(found.score.weight, model.score.weight)


def test_the_config_says_that_it_is_one_regression_output(base, tmp_path):
    load_reward_model(base).model.save_pretrained(tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["problem_type"] == "regression"
    assert config["id2label"] == {"0": "reward"}
    assert config["label2id"] == {"reward": 0}
    assert config["architectures"] == ["Qwen3ForSequenceClassification"]
    del config["architectures"]  # as configs that are written by hand have none
    (tmp_path / "saved" / "config.json").write_text(json.dumps(config))
    assert load_reward_model(tmp_path / "saved", need_head=True).head.origin == "loaded"


@pytest.mark.parametrize("size", [0, 7, 2000, -1])
def test_a_cut_weights_file_is_told_with_its_model(base, tmp_path, size):
    directory = Path(shutil.copytree(base, tmp_path / "cut"))
    file = directory / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ModelError, match=r"/cut holds a safetensors file that is cut or damaged"):
        load_reward_model(directory)


def test_weights_of_another_shape_are_named_unless_they_are_to_be_drawn_anew(base, tmp_path):
    def change(tensors):
        tensors["score.weight"] = torch.ones(2, tensors["model.norm.weight"].numel())
        tensors["model.norm.weight"] = torch.full((3,), 2.0)

    directory = damaged(base, tmp_path, change)
    with pytest.raises(
        ModelError, match=r"model\.norm\.weight has shape \[3\], and config\.json exp"
    ):
        load_reward_model(directory)
    asked = load_reward_model(directory, seed=5, ignore_mismatched_sizes=True)
    norm = asked.model.model.norm.weight
    assert torch.equal(norm, torch.ones_like(norm))
    assert asked.head == load_reward_model(base, seed=5).head
    with pytest.raises(ModelError, match=r"no score head \(score.weight is missing\)"):
        load_reward_model(directory, ignore_mismatched_sizes=True, need_head=True)


@pytest.mark.catalogue(111)
def test_a_model_without_head_is_refused_where_one_is_needed(base):
    with pytest.raises(ModelError, match=r"no score head \(score.weight is missing\)"):
        load_reward_model(base, need_head=True)


@pytest.mark.catalogue(112)
def test_weights_that_are_not_finite_are_refused_by_name(base, tmp_path):
    def change(tensors):
        tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = float("nan")
        tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = float("inf")

    with pytest.raises(ModelError, match=r"layers\.1\.mlp\.up_proj\.weight holds 2 of 1536"):
        load_reward_model(damaged(base, tmp_path, change))


@pytest.mark.catalogue(113)
def test_an_incomplete_checkpoint_is_refused_by_name(base, tmp_path):
    directory = damaged(base, tmp_path, lambda t: t.pop("model.layers.0.mlp.down_proj.weight"))
    with pytest.raises(ModelError, match=r"lacks model\.layers\.0\.mlp\.down_proj\.weight"):
        load_reward_model(directory)


@pytest.mark.catalogue(113)
def test_weights_that_the_config_does_not_know_are_refused(base, tmp_path):
    def change(tensors):
        tensors["model.layers.7.mlp.up_proj.weight"] = torch.zeros(2, 2)

    with pytest.raises(ModelError, match=r"does not know: model\.layers\.7"):
        load_reward_model(damaged(base, tmp_path, change))


@pytest.mark.catalogue(114)
def test_pickled_weights_are_refused(base, tmp_path):
    directory = tmp_path / "pickled"
    shutil.copytree(base, directory)
    torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no safetensors weights"):
        load_reward_model(directory)


@pytest.mark.catalogue(114)
def test_a_directory_that_brings_code_is_refused(base, tmp_path):
    directory = tmp_path / "code"
    shutil.copytree(base, directory)
    config = json.loads((directory / "config.json").read_text())
    config["auto_map"] = {"AutoModelForSequenceClassification": "evil.Evil"}
    (directory / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="auto_map"):
        load_reward_model(directory)


@pytest.mark.catalogue(110)
def test_a_classifier_with_three_labels_is_refused(base, tmp_path):
    three = AutoModelForSequenceClassification.from_pretrained(base, num_labels=3)
    three.save_pretrained(tmp_path / "three")
    with pytest.raises(ModelError, match="classifies into 3 labels"):
        load_reward_model(tmp_path / "three")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: "{", r"config\.json is no JSON object: found '{'; save it again"),
        (lambda _: "null", r"config\.json is no JSON object: found 'null'"),
        (lambda _: "[1]", r"config\.json is no JSON object: found '\[1\]'"),
        (lambda text: text.replace("qwen3", "qwen99"), "no config that.*model type `qwen99`"),
        (lambda text: text.replace('"model_type"', '"kind"'), "no config that.*model_type"),
        (lambda text: text.replace('_layers": 2', '_layers": 3'), "no config that.*layer_types"),
    ],
)
def test_a_config_that_cannot_be_read_is_told_with_its_model(base, tmp_path, change, said):
    directory = tmp_path / "copied"
    shutil.copytree(base, directory)
    text = (directory / "config.json").read_text("utf-8")
    (directory / "config.json").write_text(change(text), "utf-8")
    with pytest.raises(ModelError, match=rf"(?s)copied.*{said}"):
        load_reward_model(directory)


def test_a_place_without_a_model_is_told(tmp_path):
    with pytest.raises(ModelError, match=r"(?s)nowhere has no config.*; expected the directory of"):
        load_reward_model(tmp_path / "nowhere")


def test_a_trainer_told_of_a_place_without_a_model_says_so(tmp_path):
    config = RewardConfig(output_dir=str(tmp_path / "out"), use_cpu=True, report_to="none")
    with pytest.raises(ParamsError, match=r"nowhere', which is no directory here, nor a repos"):
        RewardTrainer(str(tmp_path / "nowhere"), config, train_dataset=[{}])


def test_the_labels_are_those_of_the_revision_that_is_loaded(base, tmp_path, monkeypatch):
    asked = lambda *_, **__: pytest.fail("the hub was asked")  # noqa: E731
    monkeypatch.setattr(file_download, "get_hf_file_metadata", asked)
    hub = tmp_path / "models--some--model"
    main, other = "1" * 40, "2" * 40
    three = AutoModelForSequenceClassification.from_pretrained(base, num_labels=3)
    three.save_pretrained(hub / "snapshots" / main)
    shutil.copytree(base, hub / "snapshots" / other)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text(main)
    place = {"cache_dir": str(tmp_path), "local_files_only": True}  # no hub is asked
    with pytest.raises(ModelError, match="some/model classifies into 3 labels"):
        load_reward_model("some/model", **place)
    found = load_reward_model("some/model", revision=other, **place)
    assert found.head == load_reward_model(base).head


@pytest.mark.catalogue(106)
def test_a_tokenizer_with_ids_beyond_the_embedding_is_refused(base):
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["onemore"])
    with pytest.raises(ModelError, match=r"id 64 \('onemore'\) but the embedding has 64 rows"):
        fit_tokenizer(load_reward_model(base).model, tokenizer)


@pytest.mark.catalogue(95)
@pytest.mark.parametrize("given", ["<eos>", None])
def test_a_tokenizer_that_pads_with_eos_gets_a_padding_token_of_its_own(base, caplog, given):
    model = load_reward_model(base).model
    tokenizer = make_tokenizer(pad=None)
    tokenizer.pad_token = given
    fit_tokenizer(model, tokenizer)
    said = ["pad_token is <|pad|> instead of <eos>, which rows end in"]
    assert caplog.messages == (said if given else [])
    assert tokenizer.pad_token == "<|pad|>"
    assert tokenizer.pad_token_id not in (None, EOS)
    assert model.config.pad_token_id == tokenizer.pad_token_id == 64
    assert model.get_input_embeddings().num_embeddings == 65
    assert not model.get_input_embeddings().weight[64].any()


def test_a_padding_token_that_conversations_end_in_makes_way_for_one_of_its_own(base, tmp_path):
    """transformers' own class passes over padding tokens at the end: it would read the reward one
    token before the end of the turn, and a trainer that is given the directory with it."""
    model, tokenizer = load_reward_model(base).model.eval(), make_tokenizer(pad=None)
    tokenizer.pad_token, end = "w7", tokenizer.convert_tokens_to_ids("w7")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content + ' w7' }}{% endfor %}"
    fit_tokenizer(model, tokenizer)
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|pad|>", "<eos>")
    model.save_pretrained(tmp_path)
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    turns = [{"role": "user", "content": "w3 w4"}, {"role": "assistant", "content": " w5"}]
    ids = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=False)
    assert int(ids[0, -1]) == end
    with torch.no_grad():
        assert float(plain(ids).logits) == pytest.approx(
            float(score(model, ids, torch.ones_like(ids))), abs=1e-6
        )
    other = make_tokenizer()  # a padding token of its own stays, whatever the template
    other.chat_template = "{{ raise_exception('no such turns') }}"
    fit_tokenizer(load_reward_model(base).model, other)
    assert other.pad_token_id == PAD


def test_a_padding_token_that_the_vocabulary_keeps_is_taken(base):
    model = load_reward_model(base).model
    model.resize_token_embeddings(65, mean_resizing=False)
    tokenizer = make_tokenizer(pad=None)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.add_tokens("[PAD]")
    fit_tokenizer(model, tokenizer)
    assert tokenizer.pad_token == "[PAD]"
    assert tokenizer.pad_token_id == model.config.pad_token_id == 64
    assert model.get_input_embeddings().num_embeddings == 65
    other = make_tokenizer()  # has another one for padding, and keeps it
    other.pad_token = "w5"
    fit_tokenizer(model, other)
    assert other.pad_token == "w5"


@pytest.mark.catalogue(107)
def test_an_embedding_with_more_rows_than_tokens_is_taken_as_it_is(base):
    model = load_reward_model(base).model
    model.resize_token_embeddings(80)
    fit_tokenizer(model, make_tokenizer())
    assert model.get_input_embeddings().num_embeddings == 80


@pytest.mark.catalogue(108)
def test_the_tokenizer_of_another_model_is_told_with_the_tokens_that_moved(base, tmp_path, caplog):
    other = make_tokenizer(pad=None)  # "nothing" stands where the model's own has <|pad|>
    other.add_special_tokens({"pad_token": "w60"})
    args = RewardConfig(output_dir=str(tmp_path), use_cpu=True, gradient_checkpointing=False)
    rows = Dataset.from_list(make_rows(4))
    with caplog.at_level(logging.WARNING):
        RewardTrainer(str(base), args, train_dataset=rows, processing_class=make_tokenizer())
    assert "the tokenizer is not the one beside" not in caplog.text
    with caplog.at_level(logging.WARNING):
        RewardTrainer(str(base), args, train_dataset=rows, processing_class=other)
    assert "0 of its tokens have other ids and 1 are absent ('<|pad|>')" in caplog.text


@pytest.mark.catalogue(115)
def test_a_dtype_that_the_device_lacks_is_refused_with_what_to_use(tmp_path, monkeypatch):
    for fields in ({"fp16": True}, {"model_init_kwargs": {"dtype": "float16"}}):
        with pytest.raises(ParamsError, match="fp16 needs a GPU, and training runs on a CPU"):
            RewardConfig(output_dir=str(tmp_path), use_cpu=True, **fields)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "an old GPU")
    with pytest.raises(ParamsError, match="an old GPU does not compute in it; use fp16"):
        RewardConfig(output_dir=str(tmp_path), bf16=True)
    for plain in ({"fp16": True, "bf16": False}, {"fp16": False, "bf16": False}):
        checks._check_dtype(SimpleNamespace(use_cpu=False, model_init_kwargs=None, **plain))
