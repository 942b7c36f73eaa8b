"""A tokenizer that cannot be loaded, or is not there, is told in a sentence with its directory."""

import json

import pytest
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, Qwen2Config, Qwen3Config

from tasks.errors import ModelError, ParamsError
from tasks.templating.tokenizer.loaded import loaded
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.handover.contract import write_contract
from tasks.training.model.tokenizer import load_tokenizer
from tests.training.tiny import VOCABULARY, make_model, make_rows, make_tokenizer

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 11\n"
"""What a repository has in place of a large file, until `git lfs pull`."""


def cut(path):
    path.write_bytes(path.read_bytes()[:500])


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        ("tokenizer.json", lambda path: path.write_text(POINTER), "JSONDecodeError: Expecting"),
        ("tokenizer.json", cut, "JSONDecodeError: Unterminated string"),
        ("tokenizer.json", lambda path: path.write_text('{"model": {}}'), "KeyError: 'added_to"),
        ("tokenizer.json", lambda path: path.unlink(), "ValueError: Couldn't instantiate the back"),
        ("tokenizer_config.json", lambda path: path.write_text("null"), ""),
    ],
)
def test_a_damaged_tokenizer_is_told_with_its_directory_and_what_to_do(tmp_path, name, harm, said):
    harm(make_model(tmp_path / "m") / name)
    for load in (loaded, load_tokenizer, write_contract):
        with pytest.raises((ModelError, ParamsError)) as told:
            load(tmp_path / "m")
        message = str(told.value)
        assert message.startswith(f"the tokenizer in {tmp_path / 'm'} cannot be loaded ({said}")
        assert message.endswith("again, if they are damaged, and install what is asked for")
        assert len(message.splitlines()) == 1


def test_a_damaged_tokenizer_beside_the_model_harms_nobody_who_passes_another(tmp_path):
    cut(make_model(tmp_path / "m") / "tokenizer.json")
    config = RewardConfig(output_dir=str(tmp_path / "out"), use_cpu=True, report_to="none")
    rows = Dataset.from_list(make_rows(8))
    given = make_tokenizer()
    trainer = RewardTrainer(str(tmp_path / "m"), config, rows, processing_class=given)
    assert trainer.processing_class.get_vocab() == given.get_vocab()


@pytest.mark.parametrize("family", ["qwen3", "llama", "bert"])
def test_a_model_without_any_file_of_a_tokenizer_has_none(tmp_path, family):
    """For some families transformers makes up one of special tokens alone."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text(json.dumps({"model_type": family}))
    with pytest.raises(ParamsError, match=r"no tokenizer beside the model '.*m'; pass it as proc"):
        load_tokenizer(str(tmp_path / "m"))
    with pytest.raises(ParamsError, match=r"'no/such', which is no directory here, nor a reposit"):
        load_tokenizer("no/such", local_files_only=True)


@pytest.mark.parametrize("config", [Qwen2Config, Qwen3Config])
def test_a_plain_tokenizer_that_will_be_loaded_as_another_is_told(tmp_path, caplog, config):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = AutoModelForSequenceClassification.from_config(
        config(vocab_size=VOCABULARY, num_labels=1, num_key_value_heads=1, **sizes)
    )
    args = RewardConfig(output_dir=str(tmp_path / "out"), use_cpu=True, report_to="none")
    RewardTrainer(model, args, Dataset.from_list(make_rows(8)), processing_class=make_tokenizer())
    told = "beside a model of type qwen2 AutoTokenizer loads another class" in caplog.text
    assert told == (config is Qwen2Config)
