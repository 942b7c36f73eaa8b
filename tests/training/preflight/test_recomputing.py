"""Gradient checkpointing that nobody decided is off where activations have room."""

import dataclasses
import json
from types import MethodType

import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback

from tasks.training import RewardConfig, RewardTrainer
from tasks.training.__main__ import config_arguments
from tasks.training.handover.export import exact_history
from tasks.training.params import TrainingParams
from tasks.training.preflight import recomputing, rehearsal
from tests.training.tiny import make_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

FIELDS = {
    "use_cpu": True,
    "disable_tqdm": True,
    "learning_rate": 1e-3,
    "per_device_train_batch_size": 4,
    "logging_steps": 1,
    "report_to": "none",
    "max_steps": 6,
    "save_steps": 2,
}


def make(base, directory, checkpointing, *, room=True):
    """A trainer; None leaves checkpointing open as on a GPU, which has `room` for activations or
    has it not."""
    trainer = RewardTrainer(
        str(base),
        RewardConfig(
            output_dir=str(directory),
            gradient_checkpointing=checkpointing is not False,
            decides_checkpointing=checkpointing is None,
            **FIELDS,
        ),
        train_dataset=Dataset.from_list(make_rows(14)),
    )
    if not room:
        limit(trainer.model)
    return trainer


def limit(model):
    """From now on there is no room for activations."""
    whole = model.forward

    def forward(model, **given):
        output = whole(**given)
        if torch.is_grad_enabled() and not recomputes(model):
            raise torch.OutOfMemoryError("tried to allocate 20.00 GiB")
        return output

    model.forward = MethodType(forward, model)


def recomputes(model) -> bool:
    return any(getattr(m, "gradient_checkpointing", False) for m in model.modules())


def outcome(trainer):
    weights = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    return json.dumps(exact_history(trainer.state.log_history)), weights


@pytest.mark.parametrize("room", [True, False])
def test_the_run_is_the_one_that_was_configured_so(base, tmp_path, room):
    configured = make(base, tmp_path / "configured", checkpointing=not room)
    configured.train()
    decided = make(base, tmp_path / "decided", None, room=room)
    decided.train()
    assert recomputes(decided.model) is (not room)
    assert decided.forecast.keeps_activations is room
    assert ("activations are kept" in decided.forecast.line()) is room
    assert decided.halvings == 0
    history, weights = outcome(decided)
    expected, wanted = outcome(configured)
    assert history == expected
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)


def test_activations_that_find_no_room_later_are_computed_twice_from_that_step_on(base, tmp_path):
    configured = make(base, tmp_path / "configured", checkpointing=False)
    configured.train()
    kept = make(base, tmp_path / "kept", None)
    taken: list[bool] = []

    class Fuller(TrainerCallback):
        def on_step_end(self, _args, state, _control, **_):
            taken.append(recomputes(kept.model))
            if state.global_step == 3:
                limit(kept.model)

    kept.add_callback(Fuller())
    kept.train()
    assert kept.forecast.keeps_activations
    assert taken == [False] * 3 + [True] * 3
    assert kept.halvings == 0
    history, weights = outcome(kept)
    expected, wanted = outcome(configured)
    assert history == expected
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)


def test_memory_that_is_nearly_full_is_none(base, tmp_path, monkeypatch):
    monkeypatch.setattr(rehearsal, "nearly_full", lambda _: True)
    trainer = make(base, tmp_path, None)
    trainer.train()
    assert recomputes(trainer.model)
    assert not trainer.forecast.keeps_activations


def test_a_second_run_of_a_trainer_asks_anew(base, tmp_path):
    trainer = make(base, tmp_path, None)
    trainer.train()
    assert not recomputes(trainer.model)
    limit(trainer.model)
    trainer.train()
    assert recomputes(trainer.model)
    assert trainer.halvings == 0


def test_who_says_so_computes_activations_twice_after_a_run_that_kept_them(base, tmp_path):
    first = make(base, tmp_path, None)
    first.train()
    asked = make(base, tmp_path, checkpointing=True)
    asked.train(str(tmp_path / "checkpoint-2"))
    assert recomputes(asked.model)
    copied = dataclasses.replace(first.args)
    assert copied.decides_checkpointing is True


def test_what_was_in_memory_before_the_step_does_not_count(base, tmp_path, monkeypatch):
    memory = {"now": 0, "peak": 0}

    def touch(size):
        memory["now"] = size
        memory["peak"] = max(memory.values())

    def forget(_):
        memory["peak"] = memory["now"] = 10

    monkeypatch.setattr(rehearsal, "check_round_trip", lambda *_: touch(95))
    monkeypatch.setattr(rehearsal, "forget_peak", forget)
    for module in (rehearsal, recomputing):
        monkeypatch.setattr(module, "peak_memory", lambda _: (memory["peak"], 100))
    trainer = make(base, tmp_path, None)
    whole = trainer.forward_backward

    def step(*given):
        touch(60)
        return whole(*given)

    monkeypatch.setattr(trainer, "forward_backward", step)
    trainer.train()
    assert not recomputes(trainer.model)
    states = sum(p.nbytes for p in trainer.model.parameters()) * 2
    assert 60 < trainer.forecast.memory_bytes <= 60 + states + 1000


@pytest.mark.parametrize("room", [True, False])
def test_a_resumed_run_goes_on_as_it_began(base, tmp_path, room):
    trainer = make(base, tmp_path, None, room=room)
    trainer.train()
    history, weights = outcome(trainer)
    resumed = make(base, tmp_path, None, room=room)
    resumed.train(str(tmp_path / "checkpoint-2"))
    assert recomputes(resumed.model) is (not room)
    found, ended = outcome(resumed)
    assert found == history
    assert all(torch.equal(weights[name], ended[name]) for name in ended)


def test_the_stage_leaves_it_open_on_a_gpu_alone(tmp_path):
    class Job:
        checkpoints = tmp_path

    params = TrainingParams()
    assert config_arguments(Job, params, gpu=True)["gradient_checkpointing"] is None
    assert config_arguments(Job, params, gpu=False)["gradient_checkpointing"] is False
    config = RewardConfig(output_dir=str(tmp_path), use_cpu=True, gradient_checkpointing=None)
    assert config.gradient_checkpointing is config.decides_checkpointing is False
