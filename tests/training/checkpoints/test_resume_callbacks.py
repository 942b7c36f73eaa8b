"""A run that goes on keeps what callbacks counted, and evaluates on start once."""

import json
import os
import subprocess
import sys

import pytest
import torch
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.trainer_callback import ExportableState

from tasks.errors import Interrupted
from tests.at_length import at_length
from tests.training.checkpoints.test_checkpoint import make, result
from tests.training.checkpoints.test_checkpoint_rotation import (
    SMALLEST_MARGIN,
    every_kill,
    goes_on,
    killed,
)
from tests.training.process.two_processes import REPOSITORY

EVALUATED = {
    "max_steps": 20,
    "logging_steps": 3,
    "save_steps": 2,
    "eval_strategy": "steps",
    "eval_steps": 2,
}
WORSE = {"metric_for_best_model": "eval_margin", "greater_is_better": False}
"""The best is the first evaluation, at step 2: patience runs from there."""


def with_patience(base, pairs, directory, patience=5, **fields):
    trainer = make(base, pairs, directory, **{**EVALUATED, **WORSE, **fields})
    trainer.add_callback(EarlyStoppingCallback(patience))
    return trainer


@every_kill(4, 7, 12, 14)  # in the middle of an epoch of 12 steps, at its end
def test_an_evaluation_on_start_is_not_done_again(base, pairs, tmp_path, kills):
    fields = {**EVALUATED, "eval_on_start": True, "save_steps": 1, "disable_dropout": False}
    whole = make(base, pairs, tmp_path / "whole", **fields)
    whole.train()
    resumed = goes_on(lambda: make(base, pairs, tmp_path / "run", **fields), kills)
    assert [h["step"] for h in resumed.state.log_history].count(0) == 1
    assert result(resumed, tmp_path / "a") == result(whole, tmp_path / "b")


def test_an_evaluation_on_start_that_was_never_done_is_done(base, pairs, tmp_path):
    killed(make(base, pairs, tmp_path / "run", **EVALUATED), 4)
    resumed = make(base, pairs, tmp_path / "run", **EVALUATED, eval_on_start=True)
    resumed.job = make(base, pairs, tmp_path / "run", **EVALUATED).job
    resumed.train(resume_from_checkpoint=True)
    steps = [h["step"] for h in resumed.state.log_history if "eval_loss" in h]
    assert steps == [2, 4, 4, *range(6, 21, 2)]


@pytest.mark.parametrize("fields", [SMALLEST_MARGIN, *at_length({}, {"eval_on_start": True})])
@every_kill(2, 8, 10)
def test_patience_goes_on_where_it_was(base, pairs, tmp_path, kills, fields):
    whole = with_patience(base, pairs, tmp_path / "whole", **fields)
    whole.train()
    assert 10 <= whole.state.global_step < 20
    resumed = goes_on(lambda: with_patience(base, pairs, tmp_path / "run", **fields), kills)
    assert resumed.state.global_step == whole.state.global_step
    assert result(resumed, tmp_path / "a") == result(whole, tmp_path / "b")


@pytest.mark.parametrize("fields", [*at_length({}), SMALLEST_MARGIN])
# It ends at step 10, within an interval, or 12.
@pytest.mark.parametrize("patience", [4, *at_length(5)])
def test_a_run_that_stopped_early_is_taken_over_as_it_is(base, pairs, tmp_path, patience, fields):
    first = with_patience(base, pairs, tmp_path / "run", patience, **fields)
    first.train()
    assert first.state.global_step == 2 + 2 * patience
    again = with_patience(base, pairs, tmp_path / "run", patience, **fields)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == first.state.global_step
    assert result(again, tmp_path / "a") == result(first, tmp_path / "b")


def test_more_patience_or_none_lets_a_run_that_stopped_early_go_on(base, pairs, tmp_path):
    first = with_patience(base, pairs, tmp_path / "run", patience=3)
    first.train()
    assert first.state.global_step == 8
    patient = with_patience(base, pairs, tmp_path / "run", patience=5)
    patient.train(resume_from_checkpoint=True)
    assert patient.state.global_step == 12
    without = make(base, pairs, tmp_path / "run", **EVALUATED, **WORSE)
    without.train(resume_from_checkpoint=True)
    assert without.state.global_step == 20


BY_EPOCHS = {
    "max_steps": -1,
    "num_train_epochs": 4,
    "logging_steps": 5,
    "save_strategy": "epoch",
    "eval_strategy": "epoch",
}


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, SMALLEST_MARGIN])
def test_an_epoch_whose_evaluation_ends_the_run_has_all_its_steps_logged(
    base, pairs, tmp_path, fields
):
    fields = {**BY_EPOCHS, **fields}
    whole = with_patience(base, pairs, tmp_path / "whole", 2, **fields)
    whole.train()
    assert whole.state.global_step == 36  # the first of three epochs of 12 steps was the best
    logged = [record for record in whole.state.log_history if "loss" in record]
    assert [record["step"] for record in logged] == [5, 10, 15, 20, 25, 30, 35, 36]
    last = [record for record in whole.state.log_history if "eval_loss" in record][-1]
    assert logged[-1]["num_tokens"] == last["eval_num_tokens"]
    kills = [12, 36]  # goes on, and is taken over
    resumed = goes_on(lambda: with_patience(base, pairs, tmp_path / "run", 2, **fields), kills)
    assert result(resumed, tmp_path / "a") == result(whole, tmp_path / "b")


@pytest.mark.slow
@pytest.mark.parametrize("logging", [{"logging_strategy": "epoch"}, {"logging_steps": 5}])
@every_kill(6, 12, 18, 36)  # within an epoch, at its end, at the last
def test_a_run_that_saves_its_best_models_alone_goes_on_as_it_was(
    base, pairs, tmp_path, kills, logging
):
    fields = {
        "num_train_epochs": 3,
        "save_strategy": "best",
        "eval_strategy": "steps",
        "eval_steps": 6,
        "metric_for_best_model": "eval_margin",
        "greater_is_better": True,
        **logging,
    }
    whole = make(base, pairs, tmp_path / "whole", **fields)
    whole.train()
    assert whole.state.log_history[-2]["step"] == 36
    assert "loss" in whole.state.log_history[-2]
    resumed = goes_on(lambda: make(base, pairs, tmp_path / "run", **fields), kills)
    assert result(resumed, tmp_path / "a") == result(whole, tmp_path / "b")


@pytest.mark.slow
def test_a_stop_is_saved_though_the_evaluation_of_its_step_finds_no_better_model(
    base, pairs, tmp_path
):
    fields = {**EVALUATED, **WORSE, "save_strategy": "best", "eval_steps": 1}
    with pytest.raises(Interrupted, match="after step 5 of 20"):
        make(base, pairs, tmp_path / "run", stop_at=5, **fields).train()
    resumed = make(base, pairs, tmp_path / "run", **fields)
    resumed.train(resume_from_checkpoint=True)
    whole = make(base, pairs, tmp_path / "whole", **fields)
    whole.train()
    assert result(resumed, tmp_path / "a") == result(whole, tmp_path / "b")


class Counter(TrainerCallback, ExportableState):
    """Counts steps; `seen` is the caller's, and no part of the state."""

    def __init__(self, seen):
        self.seen, self.steps = seen, 0

    def on_step_end(self, args, state, control, **_):  # noqa: ARG002
        self.steps += 1
        self.seen.append(state.global_step)

    def state(self):
        return {"args": {}, "attributes": {"steps": self.steps}}


def counting(base, pairs, directory, *counters):
    trainer = make(base, pairs, directory, max_steps=8, save_steps=2)
    for counter in counters:
        trainer.add_callback(counter)
    return trainer


def test_the_given_callbacks_stay_in_their_order_with_what_is_not_their_state(
    base, pairs, tmp_path
):
    first, second = Counter([]), Counter([])
    second.steps = 100
    killed(counting(base, pairs, tmp_path / "run", first, second), 4)
    first, second = Counter([]), Counter([])
    resumed = counting(base, pairs, tmp_path / "run", first, second)
    before = list(resumed.callback_handler.callbacks)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.callback_handler.callbacks == before
    assert (first.steps, second.steps) == (8, 108)
    assert first.seen == [5, 6, 7, 8]
    state = json.loads((tmp_path / "run" / "checkpoint-8" / "trainer_state.json").read_text())
    kept = [one["attributes"]["steps"] for one in state["stateful_callbacks"]["Counter"]]
    assert kept == [8, 108]


def test_a_callback_that_the_checkpoint_does_not_know_begins_at_its_start(base, pairs, tmp_path):
    killed(counting(base, pairs, tmp_path / "run"), 4)
    counter = Counter([])
    counting(base, pairs, tmp_path / "run", counter).train(resume_from_checkpoint=True)
    assert counter.steps == 4


def test_the_librarys_own_way_still_takes_the_checkpoints_settings(base, pairs, tmp_path):
    fields = {"restore_callback_states_from_checkpoint": True}
    killed(with_patience(base, pairs, tmp_path / "run", **fields), 6)
    resumed = with_patience(base, pairs, tmp_path / "run", patience=9, **fields)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == 12


SHARDS = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="whole"),
        pytest.param(
            SHARDS,
            id="shards",
            marks=pytest.mark.skipif(
                torch.accelerator.current_accelerator() is not None,
                reason="this torch is built for accelerators, and shards there alone",
            ),
        ),
    ],
)
def test_two_processes_stop_early_together_and_go_on_together(base, tmp_path, settings):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run(
        [*launch, "-m", "tests.training.process.two_processes_stop", str(base), str(tmp_path)],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1", **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for rank in (0, 1):
        found = json.loads((tmp_path / f"found_{rank}.json").read_text())
        history, left, _ = found["whole"]
        assert history[-1]["step"] == 10  # the first evaluation after a step was the best
        assert left == ["checkpoint-10", "checkpoint-2"]
        assert found["killed"][0] != history
        assert found["resumed"] == found["taken over"] == found["whole"]
