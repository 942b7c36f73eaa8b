"""The params file: everything wrong in it is named at once, before any work."""

import json
import os

import pytest
import yaml

from flows.params import load, refuse_secrets
from flows.pipeline import Pipeline
from flows.strict_yaml import read_yaml
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
        ("training.learning_rate=.inf", "training.learning_rate: .*finite number, found inf"),
        ("training.optim_args=x", "training.optim_args: .*pattern .*=.*found 'x'"),
        ("training.learning_rate=true", "learning_rate: Input should be a number .*, found True"),
        (
            "tokenization.max_length=on",
            "max_length: Input should be a number, or null .*found True",
        ),
        ("registration.gate.max_source_drop=off", "drop: .* number, or null .*off.*, found False"),
        ("conversion.eval_fraction=2", "conversion.eval_fraction: .*, found 2"),
        ("model.path=x", "model: needs exactly one of path, hub and scratch, found path and scr"),
        ("ingestion.sources.5.limit=1", "'5' is no index below 2"),
        ("ingestion.sources.².limit=1", "'²' is no index below 2"),
        ("ingestion.sources.0.name=../x", "ingestion.sources.0.name: "),
        ("ingestion.sources.1.name=helpful", "sources share the name 'helpful'"),
        ("training.max_length=9", "max_length: unknown key; did you mean tokenization.max_length"),
        ("training.use_dora=true", "use_dora: unknown key; did you mean training.lora.use_dora?"),
        ("training.split=x", "training.split: unknown key; known here: "),  # one of sources' keys
        ("training", "is not of the form dotted.key=value"),
        ("model=&a {path: *a}", r"is no valid YAML: line 1, column 11: \*a stands within"),
        ("model={path: {{MODEL_DIR}}}", "a mapping stands where a key is expected"),
        ("training={seed: 1, seed: 2}", "the key 'seed' stands twice"),
    ],
)
def test_a_wrong_override_is_named_with_the_nearest_valid_name(params_file, override, sentence):
    with pytest.raises(ParamsError, match=sentence):
        load(params_file, [override])


def test_all_mistakes_are_told_at_once(params_file):
    with pytest.raises(ParamsError) as caught:
        load(params_file, ["training.sed=1", "tokenization.max_length=-1", "conversion.x=1"])
    assert str(caught.value).count("\n") == 3


def test_a_mistake_within_a_source_is_told_once_and_no_source_at_all_still_is(params_file):
    wrong = ["ingestion.sources.0.limit=ten", "ingestion.sources.1.limit=0"]
    with pytest.raises(ParamsError) as caught:
        load(params_file, wrong)
    [_, *lines] = str(caught.value).split("\n")
    assert [line.partition(":")[0].strip() for line in lines] == [
        w.partition("=")[0] for w in wrong
    ]
    with pytest.raises(ParamsError, match=r"ingestion\.sources: .*at least 1 item"):
        load(params_file, ["ingestion.sources=[]"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model: {path: a}\nmodel: {path: b}", "line 2: the key 'model' stands twice"),
        ("a: {x: 1, y: 2,\n  0x1: 1, 1: 2}", "line 2: the key 1 stands twice"),
        ("a: &a {x: 1}\nb: {<<: *a, <<: *a}", "line 2: the key '<<' stands twice"),
        ("a: &a {<<: {k: 1}, k: 2, k: 3}\nb: {<<: *a}", "line 1: the key 'k' stands twice"),
        (
            "model:\n  path: {{MODEL_DIR}}",
            "is no valid YAML: line 2, column 10: a mapping stands where a key is .*{{NAME}}, fill",
        ),
        ("model: {[a]: 1}", "line 1, column 9: a sequence stands where a key is expected"),
        ("model: &a {path: *a}", r"line 1, column 18: \*a stands within what it names"),
        ("a: &a {<<: *a}", r"\*a stands within what it names"),
        ("a: {<<: 5}", "no valid YAML: line 1, column 9: .*expected a mapping"),
        ("[" * 3000, "is no valid YAML: it is nested too deep"),
        ("seed: 2024-02-31", "is no valid YAML: day is out of range for month; quote"),
        ("seed: !!int ''", "is no valid YAML: .*; quote the text"),
        ("seed: !!bool foo", "is no valid YAML: .*; quote the text"),
        ("seed: !!timestamp foo", "is no valid YAML: .*; quote the text"),
        ("? !!map foo\n: 1", "is no valid YAML: "),
        ("training: {seed: 010}", r"line 1, column 18: YAML reads 010 as 8; write the number"),
        ("training: {max_steps: 1:30}", "YAML reads 1:30 as 90; .* or quote it"),
        ("training: {learning_rate: -1:30.5}", "YAML reads -1:30.5 as -90.5"),
        ("x: [!!int '017']", "YAML reads 017 as 15"),
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


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("seed: 1".encode("utf-16"), "byte 0xff in line 1"),
        (b"seed: 1\n# caf\xe9", "byte 0xe9 in line 2"),
    ],
)
def test_a_file_in_another_encoding_is_told_where_it_shows(tmp_path, content, found):
    path = tmp_path / "p.yaml"
    path.write_bytes(content)
    with pytest.raises(ParamsError, match=rf"is not UTF-8 \({found}\); save it in that encoding"):
        load(path)


def test_numbers_that_are_read_as_they_look_are_taken(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(
        "model: {path: x}\ningestion: {sources: [{name: '010', path: '1:30'}]}\n"
        "training: {seed: 0, max_steps: 1_000, learning_rate: 0.5}\n"
    )
    params = load(path, ["training.data_seed=0x10"])
    training, (source,) = params.training, params.ingestion.sources
    assert (training.seed, training.data_seed, training.max_steps) == (0, 16, 1000)
    assert (training.learning_rate, source.name, source.path) == (0.5, "010", "1:30")
    with pytest.raises(
        ParamsError, match=r"override 'training.seed=007' is no valid YAML: .* as 7"
    ):
        load(path, ["training.seed=007"])


@pytest.mark.parametrize("place", ["training.seed", "training.data_seed", "model.scratch.seed"])
def test_a_seed_that_no_generator_takes_is_refused_before_any_work(tmp_path, place):
    path = tmp_path / "p.yaml"
    path.write_text("model: {scratch: {}}\ningestion: {sources: [{name: s, path: a.jsonl}]}\n")
    with pytest.raises(ParamsError, match=rf"{place}: Input should be less than \d+, found 99999"):
        load(path, [f"{place}=99999999999999999999999"])


def test_merge_keys_take_what_a_mapping_does_not_say_itself(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(
        "model: {scratch: {hidden_size: 64}}\n"
        "ingestion:\n"
        "  sources:\n"
        "    - &d {name: s, path: a.jsonl, limit: 5}\n"
        "    - &e {<<: *d, name: s2}\n"
        "    - {<<: [*e, {layout: trl}], name: s3, limit: 7}\n"
        "training: {lora: {<<: &f {<<: &g {r: 4}, r: 8}, alpha: 3}}\n"
    )
    params = load(path, ["training.lora.use_dora=true"])
    found = [(s.name, s.path, s.limit, s.layout) for s in params.ingestion.sources]
    assert found == [
        ("s", "a.jsonl", 5, None),
        ("s2", "a.jsonl", 5, None),
        ("s3", "a.jsonl", 7, "trl"),
    ]
    assert (params.training.lora.r, params.training.lora.alpha) == (8, 3)
    merged = read_yaml("{<<: [{r: 8, rank: 8}, {<<: {s: 1}, r: 4, rank: 4}], t: 2}")
    assert merged == {"r": 8, "rank": 8, "s": 1, "t": 2}
    with pytest.raises(yaml.YAMLError, match="expected a mapping for merging, but found scalar"):
        read_yaml("{<<: [{r: 8}, 4], t: 2}")


def test_a_missing_file_names_the_directory_that_was_searched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParamsError, match=f"does not exist .looked in {tmp_path}"):
        load("nowhere.yaml")
    with pytest.raises(ParamsError, match=f"params file {tmp_path} is a directory; give the YAML"):
        load(tmp_path)
    (tmp_path / "rows.JSONL.gz").write_bytes(b"")
    with pytest.raises(ParamsError, match=r"rows.JSONL.gz is data by its name, expected YAML; wri"):
        load(tmp_path / "rows.JSONL.gz")
    (tmp_path / "long.yaml").write_text("#" * (2**20 + 1))
    with pytest.raises(ParamsError, match=r"long\.yaml is over 1 MiB; is it a data"):
        load(tmp_path / "long.yaml")


def test_params_come_through_a_pipe_and_a_name_that_none_can_have_is_told(params_file):
    come, go = os.pipe()
    os.write(go, params_file.read_bytes())
    os.close(go)
    assert load(f"/dev/fd/{come}") == load(params_file)
    os.close(come)
    with pytest.raises(ParamsError, match=r"params file 'aaa.* cannot be read: File name too long"):
        load("a" * 300)


SIGNED = "https://me:hush@host/a.jsonl?X-Amz-Signature=hush"


@pytest.mark.parametrize(
    "overrides",
    [
        [f"ingestion.sources.0.path={SIGNED}", "ingestion.sources.0.hub=a/b"],  # both places
        [f"ingestion.sources.0.name={SIGNED}"],
        [f"ingestion.sources.0.limit={SIGNED}"],
        ["ingestion.sources.0.storage={secret: hush}", "ingestion.sources.0.hub=a/b"],
        [f"ingestion.sources.9.path={SIGNED}"],
        [f"ingestion.sources.0.path.x={SIGNED}"],
        [f"ingestion.sources.0.path=[{SIGNED}"],
        [f"ingestion.sources={SIGNED}"],
        [f"model.path={SIGNED}", "model.scratch=null"],
        [f"training.learning_rate={SIGNED}"],
        [SIGNED],
    ],
)
def test_no_error_quotes_the_secret_of_a_url(params_file, overrides):
    with pytest.raises(ParamsError) as caught:
        load(params_file, overrides)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None  # whose own words are logged with it


@pytest.mark.parametrize(
    "text",
    [
        f"ingestion: {{sources: [{{name: a, path: '{SIGNED}'}}]\nmodel: [",
        f"model: !x '{SIGNED}'",
        f'"{SIGNED}"',
        f"ingestion:\n  sources:\n    - path: {SIGNED}: x: y",
        f"{SIGNED}: 1\n{SIGNED}: 2",
    ],
)
def test_no_error_quotes_a_line_of_the_file(tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ParamsError) as caught:
        load(path)
    assert "hush" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_is_recorded_of_a_run_holds_no_secret(params_file, tmp_path, monkeypatch):
    from flows import pipeline as module

    seen = []
    monkeypatch.setattr(module.registration, "step", lambda *args: seen.append(args[-1]))
    overrides = [
        f"ingestion.sources.0.path={SIGNED}",
        "ingestion.sources.1.limit=1",
        "registration.tracking_uri=postgresql://me:hush@host/mlflow",
    ]
    run = Pipeline(load(params_file, overrides), tmp_path, origin={"overrides": overrides})
    before = dict.fromkeys(("training", "evaluation", "tokenization"), _stage())
    run.step("registration", before)
    [lineage] = seen
    assert "hush" not in json.dumps(lineage)
    assert lineage["params"]["ingestion"]["sources"][0]["path"] == "https://host/a.jsonl"
    assert lineage["origin"]["overrides"][1] == overrides[1]
    others = run.params.model_dump(mode="json", exclude={"ingestion", "registration"})
    assert {name: lineage["params"][name] for name in others} == others
    assert "hush" not in repr(run.params.ingestion.sources[0].model_dump(mode="json"))
    monkeypatch.undo()
    step = run.step("registration", before)
    assert step.ingredients["params"]["tracking_uri"] == "postgresql://***@host/mlflow"


def _stage():
    from types import SimpleNamespace

    return SimpleNamespace(key="k", digest="d")


def test_a_signed_url_as_an_override_is_refused_where_overrides_are_recorded():
    refuse_secrets(["training.seed=1", "ingestion.sources.0.path=https://host/a.jsonl"])
    with pytest.raises(ParamsError, match="are recorded: write it into the params file") as caught:
        refuse_secrets([f"ingestion.sources.0.path={SIGNED}"])
    assert "hush" not in str(caught.value)
