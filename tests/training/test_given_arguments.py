"""A script of another version is told what its arguments are called now."""

import pickle
import re
from dataclasses import fields, replace

import pytest
from datasets import Dataset
from transformers import TrainingArguments

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.given_arguments import OLDER_SETTINGS
from tests.training.peer.beside_peer import quiet
from tests.training.tiny import make_rows

DOCUMENTED = """
    adafactor dispatch_batches evaluation_strategy fp16_backend fp16_opt_level fsdp_min_num_params
    fsdp_transformer_layer_cls_to_wrap group_by_length half_precision_backend
    include_inputs_for_metrics include_tokens_per_second jit_mode_eval logging_dir mp_parameters
    no_cuda overwrite_output_dir past_index per_gpu_eval_batch_size per_gpu_train_batch_size
    push_to_hub_model_id push_to_hub_organization push_to_hub_token ray_scope save_safetensors
    split_batches torchdynamo tpu_metrics_debug tpu_num_cores use_ipex use_legacy_prediction_loop
    use_mps_device
""".split()  # noqa: SIM905
"""Settings of RewardConfig in TRL's documentation of versions 0.11 and 0.24 that are gone."""


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_setting_of_older_documentation_is_answered_with_what_does_it_now(tmp_path, name):
    with pytest.raises(ParamsError, match=rf"^RewardConfig takes no {name}: .+") as found:
        RewardConfig(output_dir=str(tmp_path), **{name: None})
    now = re.findall(r"say (\w+)=", str(found.value))
    assert now or re.search("leave it out|environment", str(found.value))
    assert set(now) <= {field.name for field in fields(RewardConfig)}
    assert name not in {field.name for field in fields(TrainingArguments)}


def test_every_setting_that_is_answered_was_documented():
    assert set(OLDER_SETTINGS) == set(DOCUMENTED)


def test_a_misspelt_setting_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(ParamsError, match=r"takes no max_lenght; did you mean max_length\?"):
        RewardConfig(output_dir=str(tmp_path), max_lenght=3)


class Further(RewardConfig):
    """Settings with one more that takes all."""

    def __init__(self, *given, mine=1, **named):
        super().__init__(*given, **named)
        self.mine = mine


def test_settings_are_copied_pickled_and_subclassed(tmp_path):
    given = RewardConfig(str(tmp_path), max_length=7, use_cpu=True)
    assert quiet(lambda: replace(given, max_length=9)).max_length == 9
    assert pickle.loads(pickle.dumps(given)).max_length == 7
    assert Further(str(tmp_path), mine=2, use_cpu=True).mine == 2
    with pytest.raises(TypeError, match="max_lenght"):
        Further(str(tmp_path), max_lenght=2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tokenizer": None}, r"takes no tokenizer: say processing_class="),
        ({"max_length": 9}, r"takes no max_length: say args=RewardConfig\(max_length="),
        ({"eval_datasets": None}, "takes no eval_datasets; did you mean eval_dataset?"),
        ({"args": {"max_length": 9}}, "args is of type dict; expected tasks.training.RewardConfig"),
        ({"args": TrainingArguments("", use_cpu=True)}, "TrainingArguments; expected tasks.train"),
        (
            {"model": None},
            "model is of type NoneType; expected str or Path or transformers.PreTrained",
        ),
        ({"processing_class": "x"}, "of type str; expected transformers.PreTrainedTokenizerBase"),
        ({"peft_config": {"r": 8}}, "peft_config is of type dict; expected peft.PeftConfig"),
    ],
)
def test_an_argument_that_a_trainer_cannot_use_is_told_by_its_name(base, given, said):
    with pytest.raises(ParamsError, match=said):
        RewardTrainer(**{"model": str(base), "train_dataset": [], **given})


def test_the_peer_s_settings_are_told_from_ours(base, tmp_path):
    trl = pytest.importorskip("trl")
    args = quiet(lambda: trl.RewardConfig(str(tmp_path), use_cpu=True, bf16=False))
    with pytest.raises(ParamsError, match=r"args is of type trl\..*RewardConfig; expected tasks\."):
        RewardTrainer(str(base), args, train_dataset=[])


def test_a_model_is_given_as_a_path_too(base, tmp_path):
    args = RewardConfig(str(tmp_path), use_cpu=True, report_to="none")
    trainer = RewardTrainer(base, args, train_dataset=Dataset.from_list(make_rows(4)))
    assert trainer.base_name == str(base)
