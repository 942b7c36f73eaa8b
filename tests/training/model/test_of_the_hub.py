"""A model's tokenizer comes from where the model does: its revision, its cache, its own code."""

import json
import shutil

import pytest
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, dynamic_module_utils

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tests.training.tiny import make_rows

NAME = "someone/tiny"


@pytest.fixture
def cache(base, tmp_path):
    """A hub cache with two revisions of a model; only `before` has a template."""
    place = tmp_path / "cache" / "models--someone--tiny"
    for number, branch in enumerate(("main", "before")):
        commit = str(number) * 40
        shutil.copytree(base, place / "snapshots" / commit)
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / branch).write_text(commit)
        if branch == "before":
            tokenizer = AutoTokenizer.from_pretrained(base)
            tokenizer.chat_template = "{{ messages[0].content }}"
            tokenizer.save_pretrained(place / "snapshots" / commit)
    return place.parent


def make(model, directory, tokenizer=None, **fields):
    args = RewardConfig(output_dir=str(directory), use_cpu=True, report_to="none", **fields)
    rows = Dataset.from_list(make_rows(4))
    return RewardTrainer(model, args, train_dataset=rows, processing_class=tokenizer)


@pytest.mark.parametrize(("revision", "templated"), [("before", True), ("main", False)])
def test_the_tokenizer_is_that_of_the_revision_of_the_model(
    cache, tmp_path, monkeypatch, revision, templated
):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    place = {"revision": revision, "cache_dir": str(cache)}
    trainer = make(NAME, tmp_path, model_init_kwargs=place)
    assert (trainer.processing_class.chat_template is not None) == templated


def test_code_of_a_tokenizer_is_run_only_where_it_is_trusted(base, tmp_path, monkeypatch):
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    own = tmp_path / "own"
    shutil.copytree(base, own)
    (own / "own.py").write_text(
        "from transformers import PreTrainedTokenizerFast\n\n"
        "class OwnTokenizer(PreTrainedTokenizerFast):\n    pass\n"
    )
    config = json.loads((own / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "OwnTokenizer"}
    config["auto_map"] = {"AutoTokenizer": [None, "own.OwnTokenizer"]}
    (own / "tokenizer_config.json").write_text(json.dumps(config))
    for given in ({"trust_remote_code": True}, {"model_init_kwargs": {"trust_remote_code": True}}):
        trainer = make(str(own), tmp_path / "out", **given)
        assert type(trainer.processing_class).__name__ == "OwnTokenizer"
    trainer = make(str(own), tmp_path / "out")  # transformers has a class of its own for Qwen3
    assert type(trainer.processing_class).__name__ != "OwnTokenizer"
    model = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps(model | {"model_type": "of_its_own"}))
    with pytest.raises(ParamsError, match=r"code of its own.*trust_remote_code=True"):
        make(str(own), tmp_path / "out")
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
    model.name_or_path = str(own)  # one that is given needs none beside the model
    given = AutoTokenizer.from_pretrained(base)
    assert make(model, tmp_path / "out", tokenizer=given).processing_class is given
