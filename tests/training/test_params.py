"""The training section holds RewardConfig's names, and imports nothing heavy."""

import dataclasses
import subprocess
import sys

import pytest
from pydantic import ValidationError

from tasks.training.params import OWN_FIELDS, LoraParams, TrainingParams, reward_config_fields
from tasks.training.settings.config import RewardConfig

DECIDED_HERE = {
    "num_train_epochs": "one epoch, as reward models overfit in the second",
    "gradient_checkpointing": "decided by hardware",
    "save_total_limit": "two checkpoints, as the newest may be torn by a crash",
}


def test_every_field_is_one_of_reward_config_with_the_same_default():
    theirs = {field.name: field for field in dataclasses.fields(RewardConfig)}
    params = TrainingParams()
    for name in set(TrainingParams.model_fields) - OWN_FIELDS:
        assert name in theirs, f"{name} is no field of RewardConfig"
        if name not in DECIDED_HERE:
            assert getattr(params, name) == theirs[name].default, name


def test_every_field_says_what_it_is_or_is_an_argument_of_transformers():
    undescribed = {n for n, f in TrainingParams.model_fields.items() if not f.description}
    assert undescribed <= {field.name for field in dataclasses.fields(RewardConfig)}


def test_reward_config_takes_what_the_params_hand_over(tmp_path):
    params = TrainingParams(
        warmup_steps=0.1, lr_scheduler_type="cosine", center_rewards_coefficient=0.01
    )
    fields = {**reward_config_fields(params), "gradient_checkpointing": False, "bf16": False}
    config = RewardConfig(output_dir=str(tmp_path), use_cpu=True, **fields)
    assert config.get_warmup_steps(50) == 5
    assert config.center_rewards_coefficient == 0.01
    assert config.data_seed is None


def test_importing_the_stage_imports_no_torch():
    code = (
        "import sys, tasks.training, tasks.training.task, tasks.training.process.launch;"
        "heavy = {'torch', 'transformers', 'datasets', 'peft', 'accelerate', 'prefect', 'mlflow'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"lerning_rate": 1}, "lerning_rate"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"save_steps": 2.5}, "save_steps"),
        ({"lora": {"dropout": 0.1}}, "set disable_dropout to false"),
        ({"save_total_limit": 1}, "save_total_limit"),
        ({"lora": {"rank": 4}}, "lora.rank"),
    ],
)
def test_a_wrong_field_is_refused_by_name(fields, named):
    with pytest.raises(ValidationError, match=named.replace(".", r"\.")):
        TrainingParams.model_validate(fields)


def test_only_fields_that_change_the_result_are_in_the_key():
    from tasks.artifact import digest_json

    base = TrainingParams(torch_num_threads=1)
    for inert in ({"save_steps": 7}, {"device": "cpu"}, {"dataloader_num_workers": 2}):
        assert digest_json(TrainingParams(torch_num_threads=1, **inert)) == digest_json(base)
    for decisive in ({"seed": 1}, {"logging_steps": 3}, {"lora": LoraParams()}):
        assert digest_json(TrainingParams(torch_num_threads=1, **decisive)) != digest_json(base)
    assert digest_json(TrainingParams(torch_num_threads=2)) != digest_json(base)
