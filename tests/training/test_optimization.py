"""Optimizers and schedules: what transformers would pass over is refused, and nothing else."""

import pytest
import torch
from transformers.trainer_utils import SchedulerType
from transformers.training_args import OptimizerNames

from tasks.errors import ParamsError
from tasks.training import RewardConfig
from tasks.training.optimization import NAMES, _names, check_name, check_optimizer, check_schedule
from tasks.training.params import TrainingParams
from tasks.training.task import check_launch
from tests.training.test_arguments import make


def config(tmp_path, **fields):
    return RewardConfig(output_dir=str(tmp_path), use_cpu=True, report_to="none", **fields)


def test_every_name_that_transformers_knows_is_known_without_importing_it():
    assert _names(*NAMES["optim"][:2]) == [each.value for each in OptimizerNames]
    assert _names(*NAMES["lr_scheduler_type"][:2]) == [each.value for each in SchedulerType]
    for setting, kind in (("optim", OptimizerNames), ("lr_scheduler_type", SchedulerType)):
        for each in kind:
            check_name(setting, each.value)
        assert NAMES[setting][2] <= {each.value for each in kind}


@pytest.mark.parametrize(
    ("field", "name", "close"),
    [("optim", "adamw_torc", "adamw_torch"), ("lr_scheduler_type", "cosin", "cosine")],
)
def test_an_unknown_name_is_refused_before_any_work_and_in_a_script(tmp_path, field, name, close):
    with pytest.raises(
        ParamsError, match=rf"training\.{field} is '{name}'.*did you mean {close}\?"
    ):
        check_launch(TrainingParams(**{field: name}))
    with pytest.raises(ParamsError, match=rf"^{field} is '{name}'.*did you mean {close}\?"):
        config(tmp_path, **{field: name})


@pytest.mark.parametrize(
    ("given", "unread"),
    [
        ({"optim_args": "nonsense=3"}, r"nonsense=3 \(of optim_args\)"),
        ({"optim_args": "betas=0.5"}, r"betas=0.5"),
        ({"optim": "sgd", "adam_beta2": 0.95}, r"adam_beta2=0.95"),
        (
            {"optim": "adafactor", "adam_epsilon": 1e-6, "adam_beta1": 0.8},
            "adam_beta1=0.8, adam_ep",
        ),
        ({"optim": "rmsprop", "optim_args": "momentum=0.9, typo=true"}, r"read typo=true"),
        ({"optim": "adamw_torch", "optim_args": "momentum=0.9"}, r"momentum=0.9"),
    ],
)
def test_what_an_optimizer_does_not_read_is_refused_before_the_model_is_loaded(
    tmp_path, given, unread
):
    with pytest.raises(ParamsError, match=unread):
        make("nowhere", tmp_path, fields=given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"adam_beta1": 0.8, "adam_beta2": 0.95, "adam_epsilon": 1e-6},
        {"optim": "rmsprop", "optim_args": "momentum=0.9,alpha=0.5,eps=1e-6,centered=false"},
        {"optim": "rmsprop", "optim_args": "centered=true"},
        {"optim": "sgd", "optim_args": "momentum=0.0, nesterov=false"},
        {"optim": "adagrad"},
        {"optim": "galore_adamw", "optim_args": "rank=8"},  # made for the model alone
    ],
)
def test_what_an_optimizer_reads_is_taken_its_defaults_too(tmp_path, given):
    check_optimizer(config(tmp_path, **given))


@pytest.mark.parametrize(
    ("kind", "further", "said"),
    [
        ("linear", {"bad": 1}, "bad is none of them; its arguments are: none"),
        ("constant", {"power": 2}, "power is none of them"),
        ("constant_with_warmup", {"power": 2}, "power is none of them"),
        ("cosine", {"num_cycle": 1}, "num_cycle is none of them; its arguments are: num_cycles"),
        ("cosine_with_min_lr", {}, "min_lr or min_lr_rate"),
        ("warmup_stable_decay", {"num_stable_steps": 3}, "'num_decay_steps'"),
        ("warmup_stable_decay", {"num_decay_steps": 3, "decay_type": "odd"}, "odd"),
        ("greedy", {"nothing": 3}, "nothing"),
    ],
)
def test_what_a_schedule_does_not_take_or_lacks_is_refused(tmp_path, kind, further, said):
    fields = {"lr_scheduler_type": kind, "lr_scheduler_kwargs": further, "eval_strategy": "epoch"}
    with pytest.raises(ParamsError, match=said):
        make("nowhere", tmp_path, fields=fields)


def test_a_warm_up_that_a_schedule_does_not_have_is_refused(tmp_path):
    with pytest.raises(ParamsError, match=r"warmup_steps is 0\.1; take constant_with_warmup"):
        make("nowhere", tmp_path, fields={"lr_scheduler_type": "constant", "warmup_steps": 0.1})
    check_schedule(config(tmp_path, lr_scheduler_type="constant"))


@pytest.mark.parametrize(
    ("kind", "further"),
    [
        *((kind, {}) for kind in ("linear", "cosine", "constant_with_warmup", "inverse_sqrt")),
        ("polynomial", {"lr_end": 1e-5, "power": 2.0}),
        ("cosine_with_min_lr", {"min_lr_rate": 0.1}),
        ("warmup_stable_decay", {"num_decay_steps": 3}),
        ("reduce_lr_on_plateau", {"patience": 3}),
    ],
)
def test_what_a_schedule_takes_is_taken(tmp_path, kind, further):
    fields = {"lr_scheduler_type": kind, "lr_scheduler_kwargs": further, "warmup_steps": 2}
    check_schedule(config(tmp_path, **fields, eval_strategy="steps", eval_steps=1))


def test_one_s_own_optimizer_and_schedule_are_not_held_against_settings(base, tmp_path):
    given = (torch.optim.SGD, {"lr": 0.25})
    make(base, tmp_path, fields={"adam_beta2": 0.5, "optim": "sgd"}, optimizer_cls_and_kwargs=given)
