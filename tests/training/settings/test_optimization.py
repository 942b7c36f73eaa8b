"""Optimizers and schedules: what transformers would pass over is refused, and nothing else."""

import sys
import types
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

import pytest
import torch
from transformers.trainer_utils import SchedulerType
from transformers.training_args import OptimizerNames

from tasks.errors import ParamsError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.params import TrainingParams
from tasks.training.settings.names import NAMES, _names, check_name
from tasks.training.settings.optimization import (
    _parsed,
    check_makable,
    check_optimization,
    check_optimizer,
)
from tasks.training.task import check_launch
from tests.at_length import cases_at_length
from tests.training.settings.test_arguments import make


def config(tmp_path, **fields):
    return RewardConfig(output_dir=str(tmp_path), use_cpu=True, report_to="none", **fields)


def taken(tmp_path, trainer=RewardTrainer, optimizers=(None, None), of=None, **fields):
    check_optimization(config(tmp_path, **fields), trainer, optimizers, of)


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
        (
            {"optim_target_modules": ["q_proj"]},
            r"optim_target_modules=\['q_proj'\]; leave that out",
        ),
        ({"optim_args": "fused"}, "optim_args is 'fused'; expected name=value"),
        ({"optim_args": "fused=true,"}, "optim_args is 'fused=true,'; expected name=value"),
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
        {"adam_beta1": 0.0, "adam_beta2": 0.0, "adam_epsilon": 0.0},
        {"optim": "rmsprop", "optim_args": "momentum=0.9,alpha=0.5,eps=1e-6,centered=false"},
        {"optim": "rmsprop", "optim_args": "centered=true"},
        {"optim": "sgd", "optim_args": "momentum=0.0, nesterov=false"},
        {"optim": "adagrad"},
    ],
)
def test_what_an_optimizer_reads_is_taken_its_defaults_too(tmp_path, given):
    taken(tmp_path, **given)


def test_what_an_optimizer_reads_is_not_asked_where_it_cannot_be_made(tmp_path):
    given = {"optim_args": "rank=8", "optim_target_modules": ["q_proj"]}
    args = config(tmp_path, optim="galore_adamw", **given)  # for the model alone
    check_optimizer(args, RewardTrainer.get_optimizer_cls_and_kwargs)


@pytest.mark.parametrize(
    ("name", "package", "said"),
    [
        ("lomo", "lomo_optim", "lomo_optim"),
        ("schedule_free_adamw", "schedulefree", "schedulefree"),
        ("grokadamw", "grokadamw", "grokadamw"),
        ("adamw_torch_8bit", "torchao", "torchao"),
        ("adamw_anyprecision", "torchdistx", "torchdistx"),
        ("apollo_adamw", "apollo_torch", "apollo_torch"),
    ],
)
def test_an_optimizer_whose_package_is_absent_is_refused_before_the_model_is_loaded(
    tmp_path, name, package, said
):
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    with pytest.raises(ParamsError, match=rf"optim {name} cannot be made: .*{said}.*; do so, or"):
        make("nowhere", tmp_path, fields={"optim": name})


def test_a_setting_that_an_optimizer_needs_is_asked_for_but_not_the_model(tmp_path):
    def made(said):
        def make_it(_):
            raise ValueError(said)

        return make_it

    args = config(tmp_path, optim="apollo_adamw")
    with pytest.raises(ParamsError, match=r"optim apollo_adamw cannot be made: .*optim_target_mod"):
        check_makable(args, made("You need to define `optim_target_modules` to use APOLLO"))
    check_makable(args, made("You need to pass a model to initialize APOLLO optimizer."))
    check_makable(args, made("You need to pass a `model` in order to initialize a LOMO optimizer."))


def test_whatever_way_a_text_is_read_it_is_taken(tmp_path):
    reading = {
        "any": bool,
        "on": lambda text: (text or "False").lower() in ("true", "1"),
        "number": lambda text: float(text or 3.0),
        "kind": lambda text: getattr(torch, text or "float32"),
    }

    def made(args):
        given = _parsed(args.optim_args)
        return torch.optim.SGD, {name: read(given.get(name)) for name, read in reading.items()}

    for text in ("any=true", "any=false", "on=False", "on=true", "number=3.0", "kind=float32"):
        check_optimizer(config(tmp_path, optim_args=text), made)
    for text in ("an=true", "kind=float32,ons=true"):
        with pytest.raises(ParamsError, match=r"does not read (ons|an)=true"):
            check_optimizer(config(tmp_path, optim_args=text), made)


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
        ("greedy", {"nothing": 3}, "nothing.*its arguments are: those of torch's"),
        ("reduce_lr_on_plateau", {"min_lr": [1e-6]}, "expected 2 min_lrs, got 1"),
    ],
)
def test_what_a_schedule_does_not_take_or_lacks_is_refused(tmp_path, kind, further, said):
    fields = {"lr_scheduler_type": kind, "lr_scheduler_kwargs": further, "eval_strategy": "epoch"}
    with pytest.raises(ParamsError, match=said):
        make("nowhere", tmp_path, fields=fields)


@pytest.mark.parametrize("kind", ["constant", "reduce_lr_on_plateau", "greedy"])
def test_a_warm_up_that_a_schedule_does_not_have_is_refused(tmp_path, kind):
    fields = {"lr_scheduler_type": kind, "eval_strategy": "epoch"}
    with pytest.raises(ParamsError, match=rf"{kind} has no warm-up, but warmup_steps is 0\.1"):
        make("nowhere", tmp_path, fields=fields | {"warmup_steps": 0.1})
    taken(tmp_path, **fields)


@pytest.mark.parametrize(
    ("steps", "warm_up"),
    [(3, 3), *cases_at_length((1, 1), (1, 0.5))],
)
def test_a_warm_up_of_all_steps_before_a_polynomial_is_refused_before_the_first(
    base, tmp_path, steps, warm_up
):
    fields = {"lr_scheduler_type": "polynomial", "warmup_steps": warm_up, "max_steps": steps}
    trainer = make(base, tmp_path, fields=fields)
    with pytest.raises(ParamsError, match=rf"{steps} of {steps} steps; lower it"):
        trainer.train()
    assert trainer.state.global_step == 0
    longer = make(base, tmp_path, fields={**fields, "max_steps": steps + 1})
    assert longer.train().global_step == steps + 1
    warms = make(base, tmp_path, fields={**fields, "warmup_steps": steps + 1})  # it never decays
    assert warms.train().global_step == steps


def test_a_warm_up_that_the_optimizer_has_needs_no_schedule_that_has_one(tmp_path, monkeypatch):
    class AdamWScheduleFree:
        pass

    module = types.ModuleType("schedulefree")
    module.__spec__ = ModuleSpec("schedulefree", None)
    module.AdamWScheduleFree = module.SGDScheduleFree = AdamWScheduleFree
    monkeypatch.setitem(sys.modules, "schedulefree", module)
    for place in ("trainer_optimizer", "trainer"):
        name = f"transformers.{place}.is_schedulefree_available"
        monkeypatch.setattr(name, lambda: True, raising=False)
    given = {"optim": "schedule_free_adamw", "lr_scheduler_type": "constant", "warmup_steps": 10}
    taken(tmp_path, **given)
    taken(tmp_path, **given, optim_args="weight_lr_power=2.0")
    with pytest.raises(ParamsError, match="does not read weight_power"):
        taken(tmp_path, **given, optim_args="weight_power=2.0")


@pytest.mark.parametrize(
    ("kind", "further"),
    [
        *((kind, {}) for kind in ("linear", "cosine", "constant_with_warmup", "inverse_sqrt")),
        ("polynomial", {"lr_end": 1e-5, "power": 2.0}),
        ("cosine_with_min_lr", {"min_lr_rate": 0.1}),
        ("warmup_stable_decay", {"num_decay_steps": 3}),
        ("reduce_lr_on_plateau", {"patience": 3}),
        ("reduce_lr_on_plateau", {"min_lr": [1e-6, 1e-7]}),
    ],
)
def test_what_a_schedule_takes_is_taken(tmp_path, kind, further):
    fields = {"lr_scheduler_type": kind, "lr_scheduler_kwargs": further}
    taken(tmp_path, **fields, eval_strategy="steps", eval_steps=1)


ONES_OWN = {"adam_beta2": 0.5, "optim": "sgd", "optim_args": "momentum_decay=0.01"}


def test_one_s_own_optimizer_is_not_held_against_settings_its_schedule_is(base, tmp_path):
    make(base, tmp_path, fields=ONES_OWN, optimizer_cls_and_kwargs=(torch.optim.SGD, {"lr": 0.25}))
    sgd = torch.optim.SGD([torch.zeros(1)], lr=0.25)
    falls = {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"lr_end": 0.2}}
    taken(tmp_path, optimizers=(sgd, None), **ONES_OWN, **falls)
    taken(tmp_path, of=(torch.optim.SGD, {"lr": 0.25}), **ONES_OWN, **falls)
    taken(tmp_path, optimizers=(None, object()), **falls)
    with pytest.raises(ParamsError, match=r"lr_end \(0\.2\) must be smaller than initial lr"):
        taken(tmp_path, **falls)


class OwnOptimizer(RewardTrainer):
    def create_optimizer(self, model=None):
        raise NotImplementedError


class OwnClass(RewardTrainer):
    @staticmethod
    def get_optimizer_cls_and_kwargs(args, model=None):  # noqa: ARG004
        return torch.optim.SGD, {"momentum": args.optim_args, "betas": args.adam_beta2}


class OwnSchedule(RewardTrainer):
    def create_scheduler(self, num_training_steps, optimizer=None):
        raise NotImplementedError


class OwnBoth(RewardTrainer):
    def create_optimizer_and_scheduler(self, num_training_steps):
        raise NotImplementedError


def test_what_a_trainer_makes_in_its_own_way_is_not_held_against_the_usual_one(tmp_path):
    falls = {"lr_scheduler_type": "constant", "warmup_steps": 3}
    for kind in (OwnOptimizer, OwnClass, OwnBoth):
        taken(tmp_path, kind, **ONES_OWN)
    for kind in (OwnSchedule, OwnBoth, OwnOptimizer):
        taken(tmp_path, kind, **falls)
    for kind, given in ((OwnSchedule, ONES_OWN), (OwnClass, falls)):
        with pytest.raises(ParamsError, match=r"does not read|has no warm-up"):
            taken(tmp_path, kind, **given)
