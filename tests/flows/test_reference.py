"""What the command line tells of params files and layouts is what is read."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from flows.__main__ import app
from flows.params import RewardPipelineParams
from flows.params import check as check_params
from flows.reference import DECIDED, REQUIRED, keys, layout_reference, schema
from tasks.artifact import physical_cores
from tasks.conversion.layouts.known import LAYOUTS, NAMES
from tasks.errors import ParamsError

PARAMS = Path(__file__).parents[2] / "params"
NEEDED = {"model": {"path": "m"}, "ingestion": {"sources": [{"name": "a", "path": "b"}]}}


def said(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.output


def set_at(value: dict, place: list[str], leaf: object) -> None:
    for name in place[:-1]:
        value = value.setdefault(name, {})
    value[place[-1]] = leaf


def test_the_defaults_that_are_told_are_those_of_a_file_that_says_nothing():
    told = json.loads(json.dumps(NEEDED))
    for key in keys():
        *above, name = key.key.split(".")
        optional = {"scratch", "lora", "loss"} & set(above)  # null unless they are written
        if "N" in above or optional or key.default in ("", REQUIRED, DECIDED):
            continue
        if key.key.split(".")[0] != "model":
            set_at(told, [*above, name], json.loads(key.default))
    assert check_params(told, "told") == check_params(NEEDED, "said nothing")
    decided = [key.key for key in keys() if key.default == DECIDED]
    assert decided == ["training.torch_num_threads"]
    assert check_params(NEEDED, "here").training.torch_num_threads == physical_cores()


def test_every_key_that_a_file_may_have_is_told_and_no_other():
    def places(params, above=""):
        for name, value in params:
            yield above + name
            if hasattr(value, "model_fields_set"):
                yield from places(value, f"{above}{name}.")

    full = NEEDED | {"model": {"scratch": {}}, "training": {"lora": {}, "loss": {}}}
    standing = set(places(check_params(full, "full")))
    assert standing == {key.key for key in keys() if ".N." not in key.key}
    assert {key.key for key in keys("ingestion.sources.3.weight")} == {"ingestion.sources.N.weight"}


def test_a_key_says_what_it_takes_and_whether_it_changes_the_result():
    (fraction,) = keys("conversion.eval_fraction")
    assert (fraction.takes, fraction.default) == ("0.0 <= number < 1.0", "0.05")
    assert fraction.changes_result
    (workers,) = keys("conversion.workers")
    assert (workers.takes, workers.changes_result) == ("1 <= integer or null", False)
    (name,) = keys("evaluation.benchmarks.N.name")
    assert name.default == REQUIRED
    assert name.takes == "rewardbench | rewardbench2 | rm_bench | judgebench"
    with pytest.raises(ParamsError, match=r"'training.lerning_rate'; did you mean training.learn"):
        keys("training.lerning_rate")


@pytest.mark.parametrize("file", sorted(PARAMS.glob("*.yaml")), ids=lambda f: f.name)
def test_the_schema_takes_the_examples_and_refuses_a_misspelt_key(file):
    value = yaml.safe_load(file.read_text())
    printed = json.loads(said("keys", "--json"))
    assert printed == schema()
    jsonschema.Draft202012Validator.check_schema(printed)
    jsonschema.validate(value, printed)
    with pytest.raises(jsonschema.ValidationError, match="evaluaton"):
        jsonschema.validate(value | {"evaluaton": {}}, printed)


def test_all_layouts_are_told_with_their_columns_and_options():
    lines = said("layouts").splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    for name in NAMES:
        told = layout_reference(name)
        assert f"`{name}`" in told.meaning.splitlines()[0]
        assert told.summary
        assert told.reads == LAYOUTS[name].reads
    one = said("layouts", "scored")
    assert '{"prompt": "Hi", "responses": ["Hello.", "No.", "Hm."], "scores": [3, 1, 1]}' in one
    assert "better   higher | lower" in one
    with pytest.raises(ParamsError, match=r"'zzz'; `reward-pipeline layouts` lists all"):
        layout_reference("zzz")
    with pytest.raises(ParamsError, match=r"'zzz'; `reward-pipeline keys` lists all"):
        keys("zzz")
    with pytest.raises(ParamsError, match="'score'; did you mean scored"):
        layout_reference("score")


def test_every_key_of_this_project_s_own_has_a_meaning():
    """But those whose name is all there is to say, transformers' own names above all."""
    bare = {key.key for key in keys() if not key.meaning}
    sections = set(RewardPipelineParams.model_fields)
    assert {k for k in bare if k.split(".")[0] not in ("training", "model")} <= sections | {
        "ingestion.sources"
    }
