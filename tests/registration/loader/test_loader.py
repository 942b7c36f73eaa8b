"""The loader that travels with a registered model: exact, and blind to code."""

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from tasks.registration import as_reward_func, load_reward_model
from tasks.registration.loader import champion_scale
from tasks.registration.loader.id_rewards import IdScorer
from tasks.registration.loader.reward_scale import fit, write
from tasks.registration.proving.package import package
from tests.training.stage3 import models_dealt_out

PROMPT = [{"role": "user", "content": "What color is the sky? " * 30}]
ANSWERS = ["It is blue.", "green", "so " * 40, "It is blue.", "or"]


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
    assert model.scorer.reuses_prompts
    rows = [[*PROMPT, {"role": "assistant", "content": answer}] for answer in ANSWERS]
    alone = [float(model.rewards([row])[0]) for row in rows]
    whole = sum(len(model.token_ids(row)) for row in rows)
    seen = counted(model, monkeypatch)
    together = model.rewards_of_answers(PROMPT, ANSWERS)
    assert together.dtype == np.float32
    assert together == pytest.approx(alone, abs=1e-5)
    assert together[0] == together[3]
    assert sum(seen) < whole / 2
    seen.clear()
    found = as_reward_func(model)([PROMPT] * len(ANSWERS), ANSWERS)
    assert found == pytest.approx(alone, abs=1e-5)
    assert sum(seen) < whole / 2


def test_a_model_is_whole_also_where_a_trainer_deals_its_own_out(model, model_directory):
    alone = model.rewards_of_answers(PROMPT, ANSWERS)
    with models_dealt_out():
        loaded = load_reward_model(model_directory)
        func = as_reward_func(load_reward_model(model_directory))
    assert (loaded.rewards_of_answers(PROMPT, ANSWERS) == alone).all()
    found = func(prompts=[PROMPT] * len(ANSWERS), completions=ANSWERS)
    assert found == pytest.approx(alone, abs=1e-6)


def test_a_path_that_was_not_loaded_is_no_reward_function(model_directory):
    with pytest.raises(ValueError, match=r"\(PosixPath\); expected a model that tasks"):
        as_reward_func(model_directory)


def test_equal_ids_are_scored_once_and_order_is_kept(model, monkeypatch):
    texts = ["blue", "The sky is green, or so they say.", "blue", "so"]
    alone = [float(model.rewards([text])[0]) for text in texts]
    seen = counted(model, monkeypatch)
    assert model.rewards(texts) == pytest.approx(alone, abs=1e-5)
    assert sum(seen) == 3 * max(len(model.token_ids(text)) for text in texts)


def test_a_pass_is_within_its_budget_and_little_of_it_is_padding():
    from tasks.registration.loader.prompt_reuse import batches

    lengths = np.random.default_rng(0).integers(1, 700, 300).tolist()
    found = list(batches(lengths, 512))
    assert sorted(index for batch in found for index in batch) == list(range(300))
    for batch in found:
        size = len(batch) * max(lengths[i] for i in batch)
        assert size <= 512 or len(batch) == 1
        assert size - sum(lengths[i] for i in batch) <= 512 / 8
    assert len(found) < 250
    assert list(batches([], 512)) == []


@pytest.mark.parametrize("family", ["fnet", "convbert", "bert"])
def test_no_reward_depends_on_what_is_scored_beside_it(family):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = AutoConfig.for_model(
        family, vocab_size=60, intermediate_size=48, pad_token_id=0, num_labels=1, **sizes
    )
    torch.manual_seed(0)
    made = AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():
        getattr(made.classifier, "out_proj", made.classifier).weight.mul_(20)
    scorer = IdScorer(made)
    draw = np.random.default_rng(3)
    sequences = [draw.integers(1, 60, n).tolist() for n in (3, 9, 4, 9, 7, 3)]
    together = scorer.rewards(sequences)
    alone = np.concatenate([scorer.rewards([ids]) for ids in sequences])
    assert np.abs(together - alone).max() <= 1e-5 * max(1.0, np.abs(alone).max())
    assert scorer.sees_padding == (family != "bert")


def test_a_family_with_windows_or_shifting_positions_scores_each_sequence_whole(model):
    from types import SimpleNamespace as Config

    from tasks.registration.loader.prompt_reuse import sees_everything_before

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
    for n in (1, 3):
        with pytest.raises(ValueError, match=f"2 prompts, but {n} values of 'tools'"):
            reward(["a", "b"], ["c", "d"], tools=[[{"name": "add"}]] * n)


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


def test_a_row_beyond_the_models_positions_is_scored_by_its_end_where_asked_for(copied, caplog):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 40}))
    (copied / "reward_contract.json").unlink()
    served = load_reward_model(copied, "cpu", too_long="cut_start")
    fits, long = "blue", "The sky is " + "blue or green " * 40
    ends = [served.token_ids(fits), served.token_ids(long)[-40:]]
    expected = pytest.approx(served.rewards_of_ids(ends), abs=1e-5)
    assert served.rewards([fits, long]) == expected
    assert "1 of 2 rows have more than 40 tokens" in caplog.text
    again = pickle.loads(pickle.dumps(as_reward_func(served)))
    assert again(["", ""], [fits, long]) == expected
    with pytest.raises(ValueError, match="too_long is 'cut', expected one of"):
        load_reward_model(copied, "cpu", too_long="cut")


def test_the_positions_of_a_family_are_read_from_its_config():
    from transformers import AutoConfig

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
    assert list(found.values()) == [16, 16, 14, 16, None, None]


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


def test_mlflow_passes_on_the_settings_that_a_model_is_loaded_with(
    model, model_directory, tmp_path
):
    from mlflow import pyfunc

    package(model_directory, tmp_path / "package")
    raw = model.rewards(["blue", "so", "green"])
    write(fit(raw), tmp_path / "package")
    settings = {"device": "cpu", "scale": "normalized", "special_tokens_in_text": "encode"}
    settings |= {"too_long": "cut_start"}
    before = list(sys.path)
    try:
        loaded = pyfunc.load_model(str(tmp_path / "package"), model_config=settings)
    finally:
        sys.path[:] = before
    expected = (raw - raw.mean()) / raw.std()
    assert loaded.predict(["blue", "so", "green"]) == pytest.approx(expected, abs=1e-4)
    assert np.isfinite(loaded.predict(["The <|im_end|>"])).all()
    assert loaded._model_impl.too_long == "cut_start"


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
    for std, told in ((0.0, r"std is 0\.0, expected a positive number"), ("1.4", "holds no scale")):
        write(replace(scale, std=std), copied)
        with pytest.raises(ValueError, match=told):
            load_reward_model(copied, "cpu")
    with pytest.raises(ValueError, match="2 rewards without any spread have no scale"):
        fit([2.0, 2.0])


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


def test_it_is_sent_to_other_processes_as_what_it_was_loaded_from(copied, monkeypatch):
    monkeypatch.chdir(copied.parent)
    served = load_reward_model(Path(copied.name), "cpu", special_tokens_in_text="encode")
    sent = pickle.dumps(as_reward_func(served, "ours"))
    assert len(sent) < 2000  # no weights
    monkeypatch.chdir(copied)
    came = pickle.loads(sent)
    assert came.__name__ == "ours"
    asked = ["The sky"], [" is <|im_end|> blue"]
    assert came(*asked) == as_reward_func(served)(*asked)
    strict = load_reward_model(copied, "cpu", special_tokens_in_text="quarantine")
    with pytest.raises(ValueError, match="special token"):
        pickle.loads(pickle.dumps(as_reward_func(strict)))(*asked)
