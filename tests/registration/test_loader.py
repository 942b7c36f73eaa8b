"""The loader that travels with a registered model: exact, and blind to code."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tasks.registration import as_reward_func, champion_scale, load_reward_model
from tasks.registration.package import package
from tasks.registration.reward_scale import fit, write
from tests.evaluation.pieces import write_reward_model

PROMPT = [{"role": "user", "content": "What color is the sky? " * 30}]
ANSWERS = ["It is blue.", "green", "so " * 40, "It is blue.", "or"]


@pytest.fixture(scope="module")
def model_directory(tiny_model_directory, tmp_path_factory):
    from tasks.training.handover.contract import write_contract

    directory = tmp_path_factory.mktemp("loaded")
    write_reward_model(tiny_model_directory, directory, seed=1)
    write_contract(directory)
    return directory


@pytest.fixture(scope="module")
def model(model_directory):
    return load_reward_model(model_directory, "cpu")


@pytest.fixture
def copied(model_directory, tmp_path):
    return shutil.copytree(model_directory, tmp_path / "copy")


def counted(model, monkeypatch):
    """Tokens that the body is given, call by call."""
    seen = []
    body = getattr(model.model, model.model.base_model_prefix)
    forward = body.forward

    def counting(input_ids, **options):
        seen.append(input_ids.numel())
        return forward(input_ids, **options)

    monkeypatch.setattr(body, "forward", counting)
    return seen


def test_answers_to_one_prompt_get_their_separate_rewards_from_fewer_tokens(model, monkeypatch):
    assert model.reuses_prompts
    rows = [[*PROMPT, {"role": "assistant", "content": answer}] for answer in ANSWERS]
    alone = [float(model.rewards([row])[0]) for row in rows]
    whole = sum(len(model.token_ids(row)) for row in rows)
    seen = counted(model, monkeypatch)
    together = model.rewards_of_answers(PROMPT, ANSWERS)
    assert together.dtype == np.float32
    assert together == pytest.approx(alone, abs=1e-5)
    assert together[0] == together[3]
    assert sum(seen) < whole / 2


def test_equal_ids_are_scored_once_and_order_is_kept(model, monkeypatch):
    texts = ["blue", "The sky is green, or so they say.", "blue", "so"]
    alone = [float(model.rewards([text])[0]) for text in texts]
    seen = counted(model, monkeypatch)
    assert model.rewards(texts) == pytest.approx(alone, abs=1e-5)
    assert sum(seen) == 3 * max(len(model.token_ids(text)) for text in texts)


def test_a_pass_is_within_its_budget_and_little_of_it_is_padding():
    from tasks.registration.prompt_reuse import batches

    lengths = np.random.default_rng(0).integers(1, 700, 300).tolist()
    found = list(batches(lengths, 512))
    assert sorted(index for batch in found for index in batch) == list(range(300))
    for batch in found:
        size = len(batch) * max(lengths[i] for i in batch)
        assert size <= 512 or len(batch) == 1
        assert size - sum(lengths[i] for i in batch) <= 512 / 8
    assert len(found) < 250
    assert list(batches([], 512)) == []


def test_a_family_with_windows_or_shifting_positions_scores_each_sequence_whole(model):
    from types import SimpleNamespace as Config

    from tasks.registration.prompt_reuse import sees_everything_before

    assert sees_everything_before(model.model.config)
    assert not sees_everything_before(Config(layer_types=["full_attention", "sliding_attention"]))
    assert not sees_everything_before(Config(sliding_window=4096))
    assert not sees_everything_before(Config(rope_parameters={"rope_type": "longrope"}))


def test_a_trainer_calls_it_with_text_and_with_conversations(model):
    reward = as_reward_func(model, "champion")
    assert reward.__name__ == "champion"
    talks = [[*PROMPT, {"role": "assistant", "content": a}] for a in ANSWERS]
    expected = model.rewards(talks)
    found = reward([PROMPT] * 5, [talk[1:] for talk in talks], completion_ids=None, extra=[1] * 5)
    assert found == pytest.approx(expected, abs=1e-5)
    assert all(type(value) is float for value in found)
    texts = reward(prompts=["The sky", "What"], completions=[" is blue", " color?"])
    assert texts == pytest.approx(model.rewards(["The sky is blue", "What color?"]), abs=1e-5)
    with pytest.raises(ValueError, match="2 prompts, but 1 completions"):
        reward(["a", "b"], ["c"])


def test_a_row_beyond_the_models_positions_is_refused_by_its_number(copied, monkeypatch):
    served = load_reward_model(copied, "cpu")
    monkeypatch.setattr(served.model.config, "max_position_embeddings", 40)
    fits, long = "blue " * 9, "or so " * 60
    tokens = len(served.token_ids(long))
    told = f"row 1 has {tokens} tokens, expected 40 or fewer"
    for asked in (
        lambda: served.rewards([fits, long]),
        lambda: served.predict([fits, long]),
        lambda: served.rewards_of_answers("", [fits, long]),
        lambda: as_reward_func(served)(["", ""], [fits, long]),
    ):
        with pytest.raises(ValueError, match=told):
            asked()
    # What scores the same ids as another model did, is not: a champion may have fewer positions.
    assert np.isfinite(served.rewards_of_ids([served.token_ids(long)])).all()
    monkeypatch.setattr(served.model.config, "rope_parameters", {"rope_type": "yarn"})
    assert np.isfinite(served.rewards([fits, long])).all()


def test_the_loader_refuses_by_the_positions_that_training_refuses_by():
    from types import SimpleNamespace as Model

    from transformers import AutoConfig

    from tasks.training.model.families import positions as in_training
    from tasks.training.model.positions import positions

    stretched = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    found = {}
    for family, fields in (
        ("bert", {"max_position_embeddings": 16}),
        ("gpt2", {"n_positions": 16}),
        ("roberta", {"max_position_embeddings": 16}),
        ("qwen3", {"max_position_embeddings": 16}),
        ("llama", {"max_position_embeddings": 16, "rope_parameters": stretched}),
        ("bloom", {}),
    ):
        config = AutoConfig.for_model(family, **fields)
        found[family] = positions(config)
        assert found[family] == in_training(Model(config=config))
    assert list(found.values()) == [16, 16, 14, 16, None, None]


def test_the_contract_is_replayed_and_other_weights_or_templates_are_refused(copied, model):
    assert model.golden == load_reward_model(copied, "cpu").golden >= 10
    template = (copied / "chat_template.jinja").read_text()
    (copied / "chat_template.jinja").write_text(template.replace("<|im_start|>", "<|im_start|>\n"))
    with pytest.raises(ValueError, match="other token ids here than in training"):
        load_reward_model(copied, "cpu")
    (copied / "chat_template.jinja").write_text(template)
    from safetensors.torch import load_file, save_file

    weights = load_file(copied / "model.safetensors")
    weights["score.weight"] = weights["score.weight"] + torch.full((), 0.1)
    save_file(weights, copied / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"got reward .* in training"):
        load_reward_model(copied, "cpu")


WORDS = (
    "What color?",
    "<|im_end|>",
    "see <|im_end|>\n<|im_start|>user\nSo",
    "im_end",
    "<|im_",
    "|>",
    " <|im_start|> ",
    "sky\U000f0000",
)


def rows_of_words():
    """Conversations and texts, as conversion writes them, with every one of the words somewhere."""
    for word in WORDS:
        for content in (word, [{"type": "text", "text": word}]):
            yield [{"role": "user", "content": content}], [{"role": "assistant", "content": "So"}]
        yield [{"role": "user", "content": "So"}], [{"role": "assistant", "content": word}]
        yield f"The {word}", " sky"
        yield "The sky", f" {word}"


@pytest.mark.parametrize("policy", ["quarantine", "encode", "keep"])
def test_special_tokens_in_a_rows_words_become_what_they_became_in_training(copied, policy):
    from tasks.conversion.unusable import Unusable
    from tasks.registration.given_rows import conversation
    from tasks.training.batches.reading import RowReader
    from tasks.training.handover.contract import write_contract

    contract = write_contract(copied, policy=policy)
    served = load_reward_model(copied, "cpu")
    assert served.golden == 2 * sum("refused" not in probe for probe in contract["probes"])
    reader = RowReader(served.tokenizer, policy)
    counts = {"read": 0, "refused": 0}
    for prompt, answer in rows_of_words():
        standard = isinstance(answer, str)
        other = " other" if standard else [{"role": "assistant", "content": "other"}]
        row = {
            "format": "standard" if standard else "conversational",
            "prompt": json.dumps(prompt),
            "chosen": json.dumps(answer),
            "rejected": json.dumps(other),
            "tools": None,
            "chat_template_kwargs": None,
        }
        try:
            expected = reader.ids(reader.sides(row), standard=standard)[0].tolist()
        except Unusable as refused:
            if refused.reason != "special_token_in_text":  # the template's own objections
                continue
            counts["refused"] += 1
            with pytest.raises(ValueError, match=r"holds (the special token|a private-use)"):
                served.token_ids(conversation(prompt, answer))
            continue
        counts["read"] += 1
        assert served.token_ids(conversation(prompt, answer)) == expected, (prompt, answer)
    assert counts["read"] >= 15
    assert (counts["refused"] > 0) == (policy == "quarantine")


def test_a_refused_row_names_token_and_place_and_can_be_encoded_on_request(copied):
    from tasks.training.handover.contract import write_contract

    served = load_reward_model(copied, "cpu")
    talk = [*PROMPT, {"role": "assistant", "content": np.array(["<|im_end|>"])}]
    with pytest.raises(ValueError, match=r"messages\[1\] \(assistant\) holds .*'<\|im_end\|>'"):
        served.rewards([talk])
    talk = [*PROMPT, {"role": "assistant", "content": "so <|im_end|>"}]
    asked = load_reward_model(copied, "cpu", special_tokens_in_text="encode")
    assert asked.golden == served.golden
    write_contract(copied, policy="encode")
    assert asked.token_ids(talk) == load_reward_model(copied, "cpu").token_ids(talk)
    assert asked.token_ids("<|im_end|>") != asked.token_ids("")


def test_a_row_that_training_refused_must_be_refused_again(copied):
    contract = json.loads((copied / "reward_contract.json").read_text())
    contract["probes"][0] = {
        **{k: contract["probes"][0][k] for k in ("name", "row")},
        "refused": "special_token_in_text",
    }
    (copied / "reward_contract.json").write_text(json.dumps(contract))
    with pytest.raises(ValueError, match="was refused in training for a special token"):
        load_reward_model(copied, "cpu")


def opened(model, place):
    """The file of a model's contract, what it holds (a pair, too), and the part of it that has what
    stands at the place."""
    file = model / "reward_contract.json"
    contract = json.loads(file.read_text())
    contract["pairs"] = [{"pair_id": "p", "ids": [[1], [2]], "rewards": [0.5, -0.5]}]
    part = contract
    for step in place[:-1]:
        part = part[step]
    return file, contract, part


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (("rendering",), "rendering"),
        (("rendering", "special_tokens_in_text"), r"rendering\.special_tokens_in_text"),
        (("rendering", "eos_token"), r"rendering\.eos_token"),
        (("tolerance", "float32"), r"tolerance\.float32"),
        (("probes",), "probes"),
        (("probes", 1, "ids"), r"probes\[1\]\.ids"),
        (("probes", 0, "ids", 1), r"probes\[0\]\.ids"),
        (("probes", 0, "row", "prompt"), r"probes\[0\]\.row\.prompt"),
        (("probes", 0, "row"), r"probes\[0\]\.row"),
        (("rendering", "eos_token", 0), r"rendering\.eos_token"),
        (("pairs",), "pairs"),
        (("pairs", 0, "rewards"), r"pairs\[0\]\.rewards"),
    ],
)
def test_what_a_contract_lacks_is_named(copied, place, name):
    file, contract, part = opened(copied, place)
    del part[place[-1]]
    file.write_text(json.dumps(contract))
    with pytest.raises(ValueError, match=rf"reward_contract\.json lacks {name}, or"):
        load_reward_model(copied, "cpu")
    if len(place) > 1:
        return
    file.write_text(json.dumps(contract | {place[0]: "text"}))
    with pytest.raises(ValueError, match=rf"lacks {name}, or has something else there"):
        load_reward_model(copied, "cpu")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tolerance", "float32"), None),
        (("pairs", 0, "rewards"), ["a", "b"]),
        (("pairs", 0, "ids"), [[1], ["b"]]),
        (("probes", 0, "ids"), [[1], 2]),
        (("probes", 0, "rewards"), [True, 0.5]),
    ],
)
def test_what_a_contract_has_of_another_kind_is_named(copied, place, value):
    file, contract, part = opened(copied, place)
    part[place[-1]] = value
    file.write_text(json.dumps(contract))
    with pytest.raises(ValueError, match=rf"lacks {place[0]}.*{place[-1]}, or has something else"):
        load_reward_model(copied, "cpu")


def test_a_probe_that_says_refused_without_a_reason_is_not_taken_for_compared(copied):
    file, contract, probe = opened(copied, ("probes", 0, "refused"))
    contract["probes"][0] = {"name": probe["name"], "row": probe["row"], "refused": None}
    file.write_text(json.dumps(contract))
    with pytest.raises(ValueError, match=r"lacks probes\[0\]\.ids"):
        load_reward_model(copied, "cpu")


PLANTED = "raise SystemExit('planted code ran')"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("training_args.bin", "a pickle", "is no file of a reward model"),
        ("pytorch_model.bin", "a pickle", "is no file of a reward model"),
        ("modeling_own.py", PLANTED, "is no file of a reward model"),
        ("code/reward_inference.py", PLANTED, "is no file of a reward model"),
        ("code/reward_inference_0123456789ab.py", PLANTED, "was changed after registration"),
        ("deep/down/python_model.pkl", "a pickle", "is no file of a reward model"),
        ("adapter_config.json", "{}", "an adapter names its base model elsewhere"),
        ("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": ["x.Y", null]}}', "auto_map"),
        ("reward_contract.json", "{", r"reward_contract\.json is no JSON \("),
        ("config.json", '{"text_config": {"_attn_implementation": "some/kernel"}}', "repository"),
    ],
)
def test_a_directory_with_more_than_data_or_damaged_data_is_refused(copied, name, content, said):
    (copied / name).parent.mkdir(parents=True, exist_ok=True)
    (copied / name).write_text(content)
    with pytest.raises(ValueError, match=said):
        load_reward_model(copied, "cpu")


def test_a_model_without_a_trained_head_gives_no_rewards(copied):
    file = copied / "model.safetensors"
    weights = {name: t for name, t in load_file(file).items() if name != "score.weight"}
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks score\.weight, so its rewards would be random"):
        load_reward_model(copied, "cpu")


def test_weights_of_another_shape_are_named(copied):
    file = copied / "model.safetensors"
    weights = load_file(file)
    shape = [*weights["model.norm.weight"].shape]
    save_file(weights | {"model.norm.weight": torch.ones(3)}, file, {"format": "pt"})
    with pytest.raises(
        ValueError, match=rf"model\.norm\.weight has shape \[3\], .* \[{shape[0]}\]"
    ):
        load_reward_model(copied, "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_absent_is_said_to_be(copied):
    with pytest.raises(ValueError, match="device is 'cuda', but torch finds no GPU here"):
        load_reward_model(copied, "cuda")


@pytest.mark.parametrize("device", ["tpu", "meta", "mps:7", "cuda:x", "cuda:99"])
def test_a_device_that_torch_cannot_use_is_told_in_a_sentence(copied, device):
    with pytest.raises(ValueError, match=f"device is '{device}', .*; say 'cpu'$"):
        load_reward_model(copied, device)


def test_weights_that_are_cut_off_are_told_as_such(copied):
    file = copied / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"holds a safetensors file that is cut or damaged \("):
        load_reward_model(copied, "cpu")


def test_a_packaged_model_scores_by_its_own_modules_in_mlflow(model, model_directory, tmp_path):
    package(model_directory, tmp_path / "package")
    from mlflow import pyfunc

    before = list(sys.path)
    try:
        loaded = pyfunc.load_model(str(tmp_path / "package"))
    finally:
        sys.path[:] = before
    assert loaded.predict([PROMPT, "text"]) == pytest.approx(
        model.rewards([PROMPT, "text"]), abs=1e-5
    )
    shipped = [n for n in sys.modules if n.startswith("reward_inference_")]
    assert len(shipped) == 1
    # What MLflow compiled does not make the directory a suspect one.
    assert load_reward_model(tmp_path / "package", "cpu").golden
    for module in (tmp_path / "package" / "code").glob("*.py"):
        assert "from tasks" not in module.read_text()
    with pytest.raises(ValueError, match=r"the text at 4 holds the special token '<\|im_end\|>'"):
        loaded.predict(["The <|im_end|>"])


def test_rewards_are_raw_unless_a_scale_is_asked_for(copied, model):
    with pytest.raises(ValueError, match=r"no normalization\.json; rewards can only be raw"):
        load_reward_model(copied, "cpu", scale="normalized")
    scale = fit([1.0, 3.0, 5.0])
    assert (scale.mean, scale.minimum, scale.maximum) == (3.0, 1.0, 5.0)
    assert scale.std == pytest.approx((8 / 3) ** 0.5)
    write(scale, copied)
    raw = model.rewards(ANSWERS)
    assert load_reward_model(copied, "cpu").rewards(ANSWERS).tolist() == raw.tolist()
    normalized = load_reward_model(copied, "cpu", scale="normalized").rewards(ANSWERS)
    assert normalized == pytest.approx((raw - 3.0) / scale.std, abs=1e-5)
    beyond = scale.outside(np.array([0.0, 1.0, 4.0, 5.0 + scale.std]))
    assert beyond == pytest.approx([1 / scale.std, 0, 0, 1], abs=1e-6)
    (copied / "normalization.json").write_text(json.dumps({"mean": 0, "std": 1}))
    with pytest.raises(ValueError, match="holds no scale of rewards"):
        load_reward_model(copied, "cpu")


def test_rewards_are_carried_to_the_scale_of_a_former_champion(copied, model):
    with pytest.raises(ValueError, match="no map to the scale 'reference'"):
        load_reward_model(copied, "cpu", scale="reference")
    with pytest.raises(ValueError, match="scale is 'else', expected one of"):
        load_reward_model(copied, "cpu", scale="else")
    to_two = champion_scale.ScaleMap(2, 0.5, 1.0)
    two = champion_scale.ChampionScale(2, None, champion_scale.ScaleMap(1, 4.0, -3.0), 40, 0.9)
    (copied / "registration").mkdir()
    champion_scale.write(champion_scale.chained(3, to_two, two, 40, 0.8), copied / "registration")
    raw = model.rewards(ANSWERS)
    found = load_reward_model(copied, "cpu", scale="champion")
    assert found.golden == model.golden  # the contract is held against raw rewards
    assert found.rewards(ANSWERS) == pytest.approx(0.5 * raw + 1, abs=1e-5)
    reward = as_reward_func(load_reward_model(copied, "cpu", scale="reference"))
    asked = [[{"role": "user", "content": "What?"}]] * len(ANSWERS)
    talks = [[*p, {"role": "assistant", "content": a}] for p, a in zip(asked, ANSWERS, strict=True)]
    expected = 4 * (0.5 * model.rewards(talks) + 1) - 3
    assert reward(asked, [t[1:] for t in talks]) == pytest.approx(expected, abs=1e-5)
