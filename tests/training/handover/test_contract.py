"""The score contract tells a model that scores as it was trained to from one that does not."""

import hashlib
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from tasks.artifact import Store
from tasks.errors import ModelError
from tasks.training.handover.contract import (
    CONTRACT,
    read_contract,
    rendering,
    replay,
    write_contract,
)
from tasks.training.handover.contract_differences import difference
from tasks.training.handover.export import save_model
from tasks.training.model.loading import load_reward_model
from tasks.training.model.padding import fit_tokenizer
from tasks.training.scoring import score
from tests.training.run_stage import stage_step


@pytest.fixture(scope="module")
def model_directory(tiny_model_directory, tmp_path_factory):
    """A reward model whose contract stands beside it, with two real pairs."""
    return contracted(tiny_model_directory, tmp_path_factory.mktemp("model"), "quarantine")


def contracted(base, directory, policy):
    model = load_reward_model(base, seed=4).model
    tokenizer = AutoTokenizer.from_pretrained(base)
    fit_tokenizer(model, tokenizer)
    with torch.no_grad():
        model.score.weight.mul_(20)  # rewards far apart, as after a training
    save_model(model, tokenizer, directory)
    pairs = [
        {"pair_id": f"p{n}", "chosen_input_ids": [7, 8, n], "rejected_input_ids": [7, 9]}
        for n in range(3)
    ]
    write_contract(directory, pairs, policy=policy)
    return directory


@pytest.fixture
def copied(model_directory, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(model_directory, tmp_path / "copy")


def differences(directory):
    return {v.probe: v.difference for v in replay(directory) if v.difference}


def test_a_model_keeps_its_contract_and_holds_every_shape_of_row(model_directory):
    assert differences(model_directory) == {}
    contract = read_contract(model_directory)
    probes = {probe["name"]: probe for probe in contract["probes"]}
    assert len(contract["pairs"]) == 3
    for name in ("one turn", "system", "several turns", "unicode and space", "text"):
        tokenizer = AutoTokenizer.from_pretrained(model_directory)
        text, ids = probes[name]["texts"][0], probes[name]["ids"][0]
        assert ids == tokenizer(text, add_special_tokens=name == "text")["input_ids"]
        assert len(set(probes[name]["rewards"])) == 2
    assert contract["rendering"]["pad_token"] == ["<|pad|>", 3]
    tokenizer = AutoTokenizer.from_pretrained(model_directory)
    assert contract["rendering"]["text"].startswith("prompt + answer + EOS unless it ends in it")
    end = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, tokenizer.eos_token_id)]
    )
    assert rendering(tokenizer, "keep", None, None)["text"].endswith("the last of which ends it")
    model = load_reward_model(model_directory).model.eval()
    for probe in (*(p for p in contract["probes"] if "ids" in p), *contract["pairs"]):
        for ids, reward in zip(probe["ids"], probe["rewards"], strict=True):
            with torch.inference_mode():
                given = torch.tensor([ids])
                assert reward == pytest.approx(score(model, given, given * 0 + 1).item(), rel=1e-5)
    template = hashlib.sha256((model_directory / "chat_template.jinja").read_bytes()).hexdigest()
    assert contract["rendering"]["chat_template_sha256"] == template
    # the tiny template writes no tools, so such a row is refused, here as in training
    assert probes["tools"]["refused"] == "template_drops_tools"
    assert probes["special token in a text"]["refused"] == "special_token_in_text"


def test_the_policy_for_special_tokens_is_part_of_the_contract(tiny_model_directory, tmp_path):
    encoded = contracted(tiny_model_directory, tmp_path / "encode", "encode")
    kept = contracted(tiny_model_directory, tmp_path / "keep", "keep")
    assert differences(encoded) == differences(kept) == {}
    ids = {}
    for name, directory in (("encode", encoded), ("keep", kept)):
        [probe] = [
            p for p in read_contract(directory)["probes"] if p["name"] == "special token in a text"
        ]
        ids[name] = probe["ids"][1]
    end = AutoTokenizer.from_pretrained(encoded).eos_token_id
    assert ids["encode"].count(end) == 2  # the template's own, one per turn
    assert ids["keep"].count(end) == 4


def test_a_changed_head_is_told_as_a_reward(copied):
    tensors = load_file(copied / "model.safetensors")
    tensors["score.weight"] *= 1.1
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    found = differences(copied)
    assert {"one turn", "pair p0"} <= set(found)
    assert all(text.startswith("reward: ") for text in found.values())


def test_a_changed_template_is_told_as_the_template(copied):
    template = (copied / "chat_template.jinja").read_text()
    written = read_contract(copied)["probes"][0]["texts"][0]
    (copied / "chat_template.jinja").write_text(template.replace("'\\n' +", "' ' +"))
    found = differences(copied)
    assert found["rendering"].startswith("template: chat template is")
    place = written.index("\n")
    assert found["one turn"].startswith(
        f"template: texts of chosen differ from place {place} on: ' What is 2 "
    )
    assert "pair p0" not in found
    (copied / "chat_template.jinja").write_text(template + "more")
    assert f"from place {len(written)} on: 'more', expected ''" in differences(copied)["one turn"]
    no_system = "{% if messages[0].role == 'system' %}{{ raise_exception('none') }}{% endif %}"
    (copied / "chat_template.jinja").write_text(no_system + template)
    refused = "template: the row was accepted in training, and is template_error here"
    assert differences(copied)["system"] == refused


def test_another_merge_or_end_token_is_told_as_the_tokenizer(copied):
    tokenizer = json.loads((copied / "tokenizer.json").read_text())
    tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:-40]
    (copied / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert any(text.startswith("tokenizer: ids of ") for text in differences(copied).values())
    settings = json.loads((copied / "tokenizer_config.json").read_text())
    settings["eos_token"] = "<|endoftext|>"
    (copied / "tokenizer_config.json").write_text(json.dumps(settings))
    assert "eos_token" in differences(copied)["rendering"]


def test_a_model_of_fewer_tokens_is_told_as_another_one(model_directory, base, tmp_path):
    model = load_reward_model(base, seed=4).model  # 64 rows in its embedding
    for name, expected in (("weights", "reward: "), ("everything", "tokenizer: ids of ")):
        mixed = tmp_path / name
        shutil.copytree(model_directory, mixed)
        model.save_pretrained(mixed)
        if name == "everything":
            shutil.copy(base / "tokenizer.json", mixed)
        found = differences(mixed)
        assert found["one turn"].startswith(expected), found
        assert set(found) >= {"one turn", "several turns"}


def test_a_directory_without_a_contract_or_without_a_head_is_refused(tiny_model_directory, copied):
    with pytest.raises(ModelError, match="has no score head"):
        write_contract(tiny_model_directory)
    (copied / CONTRACT).unlink()
    with pytest.raises(ModelError, match=r"holds no reward_contract\.json"):
        replay(copied)
    shutil.copytree(copied, copied / "artifact" / "model")
    (copied / "artifact" / "model" / CONTRACT).write_text("{}")
    with pytest.raises(ModelError, match=r"artifact of training: its model is in .*/model"):
        replay(copied / "artifact")


def test_the_stage_leaves_a_contract_with_its_policy_and_real_pairs(base, pairs, tmp_path):
    held = shutil.copytree(pairs, tmp_path / "pairs")
    said = {"special_tokens_in_text": "keep", "date": "2026-01-02", "formats": ["standard"]}
    (held / "rendering.json").write_text(json.dumps(said))
    trained = Store(tmp_path / "data").obtain(
        stage_step(base, held, {"device": "cpu", "max_steps": 2, "learning_rate": 1e-3})
    )
    contract = read_contract(trained.path / "model")
    assert contract["rendering"]["special_tokens_in_text"] == "keep"
    assert contract["rendering"]["date"] == "2026-01-02"
    assert contract["rendering"]["formats"] == ["standard"]
    assert "# prompt, and answer" in (trained.path / "model" / "README.md").read_text()
    assert [pair["pair_id"] for pair in contract["pairs"]] == [f"pair000{n}" for n in range(4)]
    assert differences(trained.path / "model") == {}


def test_rewards_may_differ_by_a_share_of_themselves_and_small_ones_by_a_share_of_one():
    expected = {"rewards": [-40.0, 0.5]}
    for near in ([-40.039, 0.5009], [-39.961, 0.4991]):
        assert difference(expected, {"rewards": near}, 1e-3) is None
    for other, side in (
        ([-40.041, 0.5], "chosen got -40.041, expected -40"),
        ([-40.0, 0.4989], "rejected got 0.4989, expected 0.5"),
        ([-40.0, float("nan")], "rejected got nan, expected 0.5"),
    ):
        told = difference(expected, {"rewards": other}, 1e-3)
        assert told == f"reward: {side} (within 0.001)"
