"""A script of another version is told what its arguments are called now."""

import pickle
import re
from dataclasses import fields, replace

import pytest
from datasets import Dataset
from transformers import AutoConfig, AutoTokenizer, TrainingArguments

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.model.loading import load_reward_model
from tasks.training.settings.given_arguments import OLDER_SETTINGS
from tests.training.peer.beside_peer import quiet
from tests.training.tiny import make_rows, make_tokenizer

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


@pytest.mark.parametrize(
    ("given", "multiple"), [("auto", None), ("None", None), (None, None), ("8", 8), (8, 8)]
)
def test_a_multiple_to_pad_to_is_read_as_a_command_line_gives_it(base, tmp_path, given, multiple):
    args = RewardConfig(str(tmp_path), use_cpu=True, pad_to_multiple_of=given)
    assert args.pad_to_multiple_of == multiple
    trainer = RewardTrainer(base, args, train_dataset=make_rows(4))
    length = trainer.data_collator([trainer.train_dataset[0]])["input_ids"].shape[1]
    assert length % (multiple or 1) == 0


@pytest.mark.parametrize("given", ["eight", -8, 1.5])
def test_a_multiple_to_pad_to_that_is_none_is_refused(tmp_path, given):
    with pytest.raises(ParamsError, match=f"pad_to_multiple_of is {given!r}; expected a number"):
        RewardConfig(str(tmp_path), use_cpu=True, pad_to_multiple_of=given)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("per_device_train_batch_size", 0, "is 0; expected 1 or more pairs"),
        ("per_device_eval_batch_size", -8, "is -8; expected 1 or more pairs"),
        ("gradient_accumulation_steps", 0, "is 0; expected 1 or more"),
        ("gradient_accumulation_steps", "2", "is the text '2'; expected a number"),
        ("learning_rate", -1e-4, "is -0.0001; expected 0 or more"),
        ("learning_rate", float("nan"), "is nan; expected 0 or more"),
        ("num_train_epochs", -1, "is -1; expected 0 or more"),
        ("adam_epsilon", "1e-8", r"is the text '1e-8'; expected a number"),
        ("adam_beta2", "9e-1", r"is the text '9e-1'; expected a number"),
        ("weight_decay", "1e-2", r"is the text '1e-2'; expected a number"),
        ("weight_decay", -0.1, "is -0.1; expected 0 or more"),
        ("warmup_ratio", 3, "is 3; expected a share of all steps"),
        ("warmup_ratio", 1.0, "is 1.0; expected a share of all steps"),
        ("warmup_ratio", -0.1, "is -0.1; expected a share of all steps"),
        ("warmup_ratio", "1e-1", r"is the text '1e-1'; expected a number"),
        ("logging_steps", -5, "is -5; expected 0 or more"),
        ("max_grad_norm", -1.0, "is -1.0; expected 0 or more"),
        ("learning_rate", "1e-4", r"is the text '1e-4'; expected a number .*1\.0e-4"),
        ("max_length", "512", "is the text .512.; expected a number"),
        ("max_length", 0, "is 0; expected 1 or more tokens"),
        ("center_rewards_coefficient", "1e-2", r"is the text .*1\.0e-4 as a number"),
        ("dataset_num_proc", -1, "is -1; expected 0 or more"),
        ("train_sampling_strategy", "batch_rebalance", "is .*; expected one of random, sequential"),
        ("train_sampling_strategy", "lengths", "is 'lengths'; expected one of random, sequential"),
        ("warmup_steps", "10", "is the text '10'; expected a number"),
        ("save_steps", "100", "is the text '100'; expected a number"),
        ("max_steps", "5", "is the text '5'; expected a number"),
        ("seed", "42", "is the text '42'; expected a number"),
        ("data_seed", "42", "is the text '42'; expected a number"),
        ("optim", None, "is None; expected one of .*adamw_torch_fused"),
        ("lr_scheduler_type", None, "is None; expected one of linear"),
    ],
)
def test_batches_that_cannot_be_made_are_refused_by_their_setting(tmp_path, setting, value, said):
    with pytest.raises(ParamsError, match=f"^{setting} {said}"):
        RewardConfig(output_dir=str(tmp_path), use_cpu=True, **{setting: value})


def test_ends_that_a_model_knows_stay_unless_another_is_asked_for(base, tmp_path):
    model = load_reward_model(base).model
    model.config.eos_token_id = [7, 1]  # as chat models have one for turns and one for texts
    for asked, expected in ((None, [7, 1]), ("w5", 8)):
        args = RewardConfig(str(tmp_path), use_cpu=True, report_to="none", eos_token=asked)
        trainer = RewardTrainer(model, args, processing_class=make_tokenizer())
        assert trainer.model.config.eos_token_id == expected
    assert trainer.processing_class.eos_token == "w5"


@pytest.mark.parametrize("setting", ["eos_token", "pad_token"])
def test_a_special_token_that_the_tokenizer_lacks_is_told_by_its_setting(base, tmp_path, setting):
    args = RewardConfig(str(tmp_path), use_cpu=True, **{setting: "<eoss>"})
    said = f"{setting} is '<eoss>', which the tokenizer does not have; did you mean '<eos>'"
    with pytest.raises(ParamsError, match=said):
        RewardTrainer(base, args, train_dataset=make_rows(4))


def test_the_end_token_that_is_asked_for_is_the_saved_model_s_too(base, tmp_path):
    args = RewardConfig(str(tmp_path), use_cpu=True, report_to="none", eos_token="w5")
    trainer = RewardTrainer(base, args, train_dataset=[{"chosen": "w8", "rejected": "w9"}])
    assert trainer.train_dataset[0]["chosen_input_ids"] == [11, 8]  # w5 is the eighth, after three
    trainer.save_model(str(tmp_path / "saved"))
    assert AutoConfig.from_pretrained(tmp_path / "saved").eos_token_id == 8
    assert AutoTokenizer.from_pretrained(tmp_path / "saved").eos_token == "w5"


def test_an_end_token_may_come_with_the_template(base, tiny_model_directory, tmp_path):
    given = {"chat_template_path": str(tiny_model_directory), "eos_token": "<|im_end|>"}
    args = RewardConfig(str(tmp_path), use_cpu=True, report_to="none", **given)
    trainer = RewardTrainer(base, args, train_dataset=[{"chosen": "w8", "rejected": "w9"}])
    end = trainer.processing_class.eos_token_id
    assert trainer.train_dataset[0]["chosen_input_ids"] == [11, end]
    assert end < len(trainer.model.get_input_embeddings().weight)
