"""The params file: everything wrong in it is named at once, before any work."""

import pytest

from flows.params import load
from tasks.errors import ParamsError

GOOD = """
model: {scratch: {hidden_size: 64}}
ingestion:
  sources:
    - {name: helpful, path: "data/*.jsonl", layout: hh_rlhf}
    - {name: votes, path: votes.csv, columns: {prompt: question}, limit: 50}
training: {learning_rate: 1e-3, lora: {r: 4}}
"""


@pytest.fixture
def params_file(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(GOOD)
    return path


def test_a_params_file_loads_with_defaults_and_overrides(params_file):
    params = load(
        params_file,
        [
            "training.learning_rate=3e-4",
            "ingestion.sources.1.limit=7",
            "tokenization={max_length: 9}",
        ],
    )
    assert params.training.learning_rate == 3e-4
    assert params.ingestion.sources[1].limit == 7
    assert params.tokenization.max_length == 9
    assert params.model.scratch.hidden_size == 64
    assert params.conversion.eval_fraction == 0.05
    assert params.registration.model_name == "reward-model"


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "training.lerning_rate=1",
            "training.lerning_rate: unknown key; did you mean learning_rate",
        ),
        ("training.lora.alfa=1", "training.lora.alfa: unknown key; did you mean alpha"),
        ("ingestion.sources.0.pth=x", "ingestion.sources.0.pth: unknown key; did you mean path"),
        ("trainin.seed=1", "trainin: unknown key; did you mean training"),
        ("zzz=1", "zzz: unknown key; known here: model, ingestion, conversion"),
        ("training.learning_rate=fast", "training.learning_rate: .*valid number.*, found 'fast'"),
        ("conversion.eval_fraction=2", "conversion.eval_fraction: .*, found 2"),
        ("model.path=x", "model: needs exactly one of path, hub and scratch, found path and scr"),
        ("ingestion.sources.5.limit=1", "'5' is no index below 2"),
        ("ingestion.sources.0.name=../x", "ingestion.sources.0.name: "),
        ("ingestion.sources.1.name=helpful", "sources share the name 'helpful'"),
        ("training", "is not of the form dotted.key=value"),
    ],
)
def test_a_wrong_override_is_named_with_the_nearest_valid_name(params_file, override, sentence):
    with pytest.raises(ParamsError, match=sentence):
        load(params_file, [override])


def test_all_mistakes_are_told_at_once(params_file):
    with pytest.raises(ParamsError) as caught:
        load(params_file, ["training.sed=1", "tokenization.max_length=-1", "conversion.x=1"])
    assert str(caught.value).count("\n") == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model: {path: a}\nmodel: {path: b}", "line 2: the key 'model' stands twice"),
        ("model: [", "is no valid YAML"),
        ("- 1", "must be a mapping"),
        ("training: {seed: 1}", "model: required, but missing"),
        ("x: !!python/object/apply:os.system ['true']", "is no valid YAML"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, text, sentence):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ParamsError, match=sentence):
        load(path)


def test_a_missing_file_names_the_directory_that_was_searched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParamsError, match=f"does not exist .looked in {tmp_path}"):
        load("nowhere.yaml")
