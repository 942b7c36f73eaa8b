"""Which checkpoints stay: the newest, and the one that is loaded at the end."""

import os

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from tasks.training.checkpoints import checkpoint
from tasks.training.params import LoraParams
from tests.at_length import at_length, cases_at_length
from tests.training.checkpoints.test_checkpoint import make, result

EVERY_STEP = {"max_steps": 8, "save_steps": 1, "eval_strategy": "steps", "eval_steps": 1}
SMALLEST_MARGIN = {
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_margin",
    "greater_is_better": False,  # margins grow: the best is the first
}


class Die(TrainerCallback):
    """Ends a run as a kill does, after the given step's checkpoint is committed."""

    def __init__(self, step):
        self.step = step

    def on_save(self, args, state, control, **_):  # noqa: ARG002
        if state.global_step == self.step:
            raise KeyboardInterrupt


def killed(trainer, step, **how):
    trainer.add_callback(Die(step))
    with pytest.raises(KeyboardInterrupt):
        trainer.train(**how)


def every_kill(*steps):
    """Kills after these steps, one run after the other; slow: a run of its own for each."""
    alone = at_length(*([step] for step in steps))
    return pytest.mark.parametrize("kills", [[*steps], *alone], ids=str)


def goes_on(made, kills):
    """The run that ends, after those that were killed, each of them going on where one was."""
    for place, step in enumerate(kills):
        killed(made(), step, resume_from_checkpoint=place > 0)
    trainer = made()
    trainer.train(resume_from_checkpoint=True)
    return trainer


def steps_in(directory):
    return sorted(c.step for c in checkpoint.checkpoints(directory))


def weights_of(trainer):
    return {k: v for k, v in trainer.model.state_dict().items() if "rotary" not in k}


def test_rotation_goes_by_step_though_the_clock_went_back(tmp_path):
    for step, hours in ((100, 3), (200, 2), (300, 1)):
        directory = tmp_path / f"checkpoint-{step}"
        directory.mkdir()
        (directory / checkpoint.MANIFEST).write_text("{}")
        os.utime(directory, (hours * 3600, hours * 3600))
    for name in ("checkpoint-400", "checkpoint-best"):  # torn, a user's: they push none out
        (tmp_path / name).mkdir()
    checkpoint.rotate(tmp_path, 2)
    assert sorted(c.step for c in checkpoint.checkpoints(tmp_path)) == [200, 300, 400]


@pytest.mark.parametrize(
    ("limit", "left"),
    [(2, [1, 8]), *cases_at_length((1, [1]), (3, [1, 7, 8]))],
)
def test_the_best_checkpoint_stays_and_is_loaded_at_the_end(
    base, pairs, tmp_path, limit, left, caplog
):
    fields = {**EVERY_STEP, **SMALLEST_MARGIN, "save_total_limit": limit}
    trainer = make(base, pairs, tmp_path / "run", **fields)
    trainer.train()
    margins = {h["step"]: h["eval_margin"] for h in trainer.state.log_history if "eval_margin" in h}
    assert min(margins, key=margins.get) == 1
    assert steps_in(tmp_path / "run") == left
    assert ("checkpoints are kept" in caplog.text) == (limit == 1)  # more than was asked for
    best = load_file(tmp_path / "run" / "checkpoint-1" / "model.safetensors")
    assert all(torch.equal(weights_of(trainer)[name], best[name]) for name in best)
    assert trainer.evaluate()["eval_margin"] == margins[1]


def test_the_best_adapters_stay_and_are_loaded_at_the_end(base, pairs, tmp_path):
    fields = {**EVERY_STEP, **SMALLEST_MARGIN, "lora": LoraParams(r=4)}
    trainer = make(base, pairs, tmp_path / "run", **fields)
    trainer.train()
    margins = {h["step"]: h["eval_margin"] for h in trainer.state.log_history if "eval_margin" in h}
    assert trainer.evaluate()["eval_margin"] == min(margins.values()) == margins[1]
    assert steps_in(tmp_path / "run") == [1, 8]


def test_while_a_run_lasts_the_newest_stays_beside_the_best(base, pairs, tmp_path, caplog):
    fields = {**EVERY_STEP, **SMALLEST_MARGIN, "save_total_limit": 1}
    killed(make(base, pairs, tmp_path / "run", **fields), 5)
    assert steps_in(tmp_path / "run") == [1, 5]
    told = [line for line in caplog.messages if "save_total_limit is 1; 2 checkpoints" in line]
    assert len(told) == 1


@pytest.mark.parametrize("torn", [True, *at_length(False)])
def test_a_killed_run_ends_with_the_same_best_model(base, pairs, tmp_path, torn):
    fields = {**EVERY_STEP, **SMALLEST_MARGIN}
    whole = make(base, pairs, tmp_path / "whole", **fields)
    whole.train()
    killed(make(base, pairs, tmp_path / "run", **fields), 5)
    if torn:  # then it goes on from the best
        (tmp_path / "run" / "checkpoint-5" / "optimizer.pt").unlink()
    resumed = make(base, pairs, tmp_path / "run", **fields)
    resumed.train(resume_from_checkpoint=True)
    assert steps_in(tmp_path / "run") == [1, 8]
    assert result(resumed, tmp_path / "a") == result(whole, tmp_path / "b")


def test_a_finished_run_that_is_taken_over_has_its_best_model(base, pairs, tmp_path):
    fields = {**EVERY_STEP, **SMALLEST_MARGIN}
    first = make(base, pairs, tmp_path / "run", **fields)
    first.train()
    (tmp_path / "run").rename(tmp_path / "moved")
    again = make(base, pairs, tmp_path / "moved", **fields)
    again.train(resume_from_checkpoint=True)
    assert result(again, tmp_path / "a") == result(first, tmp_path / "b")


@pytest.mark.parametrize(
    ("limit", "left"),
    [(2, [7, 8]), (None, [*range(1, 9)]), *cases_at_length((1, [8]))],
)
def test_checkpoints_of_models_alone_are_rotated(base, pairs, tmp_path, limit, left):
    fields = {**EVERY_STEP, "save_only_model": True, "save_total_limit": limit}
    make(base, pairs, tmp_path / "run", **fields).train()
    assert steps_in(tmp_path / "run") == left


def test_the_best_of_models_alone_stays(base, pairs, tmp_path):
    fields = {**EVERY_STEP, **SMALLEST_MARGIN, "save_only_model": True}
    make(base, pairs, tmp_path / "run", **fields).train()
    assert steps_in(tmp_path / "run") == [1, 8]


@pytest.mark.slow
def test_a_run_begun_again_does_not_delete_what_it_has_just_saved(base, pairs, tmp_path):
    make(base, pairs, tmp_path / "run", **EVERY_STEP).train()
    assert steps_in(tmp_path / "run") == [7, 8]
    for _ in range(2):
        trainer = make(base, pairs, tmp_path / "run", **EVERY_STEP)
        killed(trainer, 1)
    [saved_twice] = [c for c in checkpoint.checkpoints(tmp_path / "run") if c.step == 1]
    assert checkpoint.problem(saved_twice, trainer.job) is None
    killed(make(base, pairs, tmp_path / "run", **EVERY_STEP), 2)
    assert steps_in(tmp_path / "run") == [2, 8]
