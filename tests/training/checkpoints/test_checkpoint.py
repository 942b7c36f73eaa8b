"""A stopped run ends in the same bits as an undisturbed one; a damaged checkpoint is never used."""

import errno
import json
import logging
import os
import shutil
from pathlib import Path

import pytest
from transformers import TrainerCallback

from tasks.artifact.digests import hash_file
from tasks.errors import Interrupted, TrainingError
from tasks.training import RewardConfig, RewardTrainer
from tasks.training.batches.pairs import open_pairs
from tasks.training.checkpoints import checkpoint
from tasks.training.checkpoints.callbacks import StopCallback
from tasks.training.checkpoints.saving import SavingTrainer
from tasks.training.checkpoints.stopping import StopRequest
from tasks.training.handover.export import exact_history
from tasks.training.model.adapter import lora_config
from tasks.training.params import LoraParams

FIELDS = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
    "learning_rate": 1e-3,
    "per_device_train_batch_size": 4,
    "num_train_epochs": 3,
    "logging_steps": 5,
    "save_steps": 4,
    "save_total_limit": 2,
    "report_to": "none",
}


class AskAt(TrainerCallback):
    """Asks for a stop while the given step is running."""

    def __init__(self, request: StopRequest, step: int) -> None:
        self.request, self.step = request, step

    def on_step_begin(self, args, state, control, **_):  # noqa: ARG002
        if state.global_step + 1 == self.step:
            self.request.ask("the test")


def make(base, pairs, directory, stop_at=None, lora=None, **fields):
    request = StopRequest()
    callbacks = [StopCallback(request)]
    if stop_at is not None:
        callbacks.append(AskAt(request, stop_at))
    return RewardTrainer(
        str(base),
        RewardConfig(output_dir=str(directory), **{**FIELDS, **fields}),
        train_dataset=open_pairs(pairs / "train"),
        eval_dataset=open_pairs(pairs / "eval"),
        callbacks=callbacks,
        peft_config=lora_config(lora) if lora else None,
    )


def result(trainer, directory):
    trainer.save_model(str(directory))
    names = ("model.safetensors", "adapter_model.safetensors")
    digests = [hash_file(directory / name) for name in names if (directory / name).is_file()]
    return digests, json.dumps(exact_history(trainer.state.log_history))


CASES = {
    "plain": {},
    "accumulation, uneven": {"gradient_accumulation_steps": 3, "save_steps": 2},
    "dropout": {"disable_dropout": False},
    "evaluation": {"eval_strategy": "steps", "eval_steps": 3},
    "epochs": {"save_strategy": "epoch", "logging_strategy": "epoch"},
    "saved and logged at the end of an epoch": {"logging_strategy": "epoch", "save_steps": 12},
    "one long interval": {"logging_steps": 1000},
    "by max_steps": {"max_steps": 17, "lr_scheduler_type": "cosine", "warmup_steps": 0.2},
    "adapters": {
        "lora": LoraParams(r=4, dropout=0.1, target_modules=["q_proj", "up_proj"]),
        "disable_dropout": False,
    },
}
IN_MATRIX = ("accumulation, uneven", "dropout", "evaluation", "adapters")
"""Cases that `test_resume_matrix` holds in the default run as well."""
LONG = (*IN_MATRIX, "plain", "one long interval", "by max_steps")


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=pytest.mark.slow if c in LONG else ()) for c in CASES],
)
def test_a_run_stopped_twice_ends_in_the_bits_of_an_undisturbed_one(base, pairs, tmp_path, case):
    undisturbed = make(base, pairs, tmp_path / "whole", **CASES[case])
    undisturbed.train()
    steps = undisturbed.state.global_step
    expected = result(undisturbed, tmp_path / "whole_model")
    resume = "False"  # as a command line says it
    for stop_at in (steps // 3 + 1, 2 * steps // 3):
        trainer = make(base, pairs, tmp_path / "run", stop_at, **CASES[case])
        with pytest.raises(Interrupted, match=f"after step {stop_at} of {steps} .the test."):
            trainer.train(resume_from_checkpoint=resume)
        resume = "true"
    last = make(base, pairs, tmp_path / "run", **CASES[case])
    last.train(resume_from_checkpoint=True)
    assert last.state.global_step == steps
    assert result(last, tmp_path / "run_model") == expected


@pytest.mark.slow
def test_a_checkpoint_from_before_the_trainers_part_of_an_interval_was_kept_is_gone_on_from(
    base, pairs, tmp_path, monkeypatch
):
    whole = make(base, pairs, tmp_path / "whole")
    whole.train()
    unfinished = SavingTrainer._unfinished
    of_now = {"trainer", "loss", "logged"}
    monkeypatch.setattr(
        SavingTrainer,
        "_unfinished",
        lambda self: {k: v for k, v in unfinished(self).items() if k not in of_now},
    )
    with pytest.raises(Interrupted):
        make(base, pairs, tmp_path / "run", 5).train()
    monkeypatch.undo()
    resumed = make(base, pairs, tmp_path / "run")
    resumed.train(resume_from_checkpoint=True)
    assert result(resumed, tmp_path / "a") == result(whole, tmp_path / "b")


class AskInEvaluation(TrainerCallback):
    """Asks for a stop twice, while the pairs of step 6 are evaluated."""

    def __init__(self, request: StopRequest) -> None:
        self.request = request

    def on_prediction_step(self, args, state, control, **_):  # noqa: ARG002
        if state.global_step == 6:
            self.request.ask("the test")
            self.request.ask("an impatient test")


def test_a_stop_that_is_asked_for_in_an_evaluation_loses_nothing_of_it(base, pairs, tmp_path):
    fields = {"eval_strategy": "steps", "eval_steps": 3, "max_steps": 12}
    whole = make(base, pairs, tmp_path / "whole", **fields)
    whole.train()
    trainer = make(base, pairs, tmp_path / "run", **fields)
    [stops] = [c for c in trainer.callback_handler.callbacks if isinstance(c, StopCallback)]
    trainer.add_callback(AskInEvaluation(stops.request))
    with pytest.raises(Interrupted, match=r"after step 7 of 12 .the test."):
        trainer.train()
    resumed = make(base, pairs, tmp_path / "run", **fields)
    resumed.train(resume_from_checkpoint=True)
    assert result(resumed, tmp_path / "a") == result(whole, tmp_path / "b")


def test_a_finished_run_is_taken_over_without_another_step(base, pairs, tmp_path):
    fields = {"max_steps": 6}  # in the middle of an epoch
    first = make(base, pairs, tmp_path / "run", **fields)
    first.train()
    again = make(base, pairs, tmp_path / "run", **fields)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 6
    assert result(again, tmp_path / "b") == result(first, tmp_path / "a")


def test_every_file_lasts_before_the_manifest_says_so(tmp_path, stopped, monkeypatch):
    directory = tmp_path / "checkpoint-18"
    shutil.copytree(stopped / "checkpoint-18", directory)
    (directory / checkpoint.MANIFEST).unlink()
    synced, sync = [], os.fsync

    def watched(descriptor):
        synced.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), manifest.exists()))
        sync(descriptor)

    manifest = directory / checkpoint.MANIFEST
    monkeypatch.setattr(os, "fsync", watched)
    checkpoint.commit(directory, 18, {}, checkpoint.required_files(1, sharded=False))
    before = {path for path, stands in synced if not stands}
    written = [p for p in directory.iterdir() if p != manifest]
    assert {*map(str, written)} < before
    assert any(name.startswith(str(manifest)) for name in before)  # under its temporary name
    after = [path for path, stands in synced if stands]
    assert {str(directory), str(tmp_path)} <= {*after}  # the names last, too


def test_a_disk_that_does_not_keep_a_file_ends_the_run_before_the_manifest(
    base, pairs, tmp_path, monkeypatch
):
    sync = os.fsync

    def fails(descriptor):
        if "checkpoint-8" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fails)
    trainer = make(base, pairs, tmp_path / "run")
    with pytest.raises(
        TrainingError, match=r"checkpoint-8 could not be .*Input/output error.*-4 s"
    ):
        trainer.train()
    assert trainer.newest_checkpoint().step == 4


class Ruin(TrainerCallback):
    """A step after which weights are infinite, though its loss and gradient were not."""

    def on_step_end(self, args, state, control, model=None, **_):  # noqa: ARG002
        if state.global_step == 8:
            model.score.weight.data[0, 0] = float("inf")


def test_weights_that_are_not_finite_are_never_saved(base, pairs, tmp_path):
    trainer = make(base, pairs, tmp_path / "run")
    trainer.add_callback(Ruin())
    with pytest.raises(TrainingError, match=r"step 8: score\.weight hold values that are NaN"):
        trainer.train()
    assert trainer.newest_checkpoint().step == 4


@pytest.fixture(scope="module")
def stopped(base, pairs, tmp_path_factory):
    """The checkpoints of steps 16 and 18 of a run that was stopped in step 18."""
    directory = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(Interrupted):
        make(base, pairs, directory, 18).train()
    assert sorted(c.step for c in checkpoint.checkpoints(directory)) == [16, 18]
    return directory


def test_a_checkpoint_is_read_once_before_it_is_gone_on_from(
    base, pairs, tmp_path, stopped, monkeypatch
):
    directory = shutil.copytree(stopped, tmp_path / "run")
    trainer = make(base, pairs, directory, 19)
    read = []

    def reads(path):
        read.append(path)
        return hash_file(path)

    monkeypatch.setattr(checkpoint, "hash_file", reads)
    found = trainer.newest_checkpoint()
    with pytest.raises(Interrupted, match="after step 19"):
        trainer.train(found)
    of_it = [path.name for path in read if path.parent == found.path]
    assert sorted(of_it) == sorted({*of_it})
    assert {"model.safetensors", "optimizer.pt"} <= {*of_it}


def files_of_a_checkpoint():
    return [
        "model.safetensors",
        "optimizer.pt",
        "scheduler.pt",
        "rng_state.pth",
        "trainer_state.json",
        "interval_0.json",
        "config.json",
        "tokenizer.json",
        "training_args.bin",
        checkpoint.MANIFEST,
    ]


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


FAULTS = {
    "missing": lambda path: path.unlink(),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "flipped": flip,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", files_of_a_checkpoint())
def test_a_damaged_file_rules_its_checkpoint_out(tmp_path, stopped, caplog, name, fault):
    directory = tmp_path / "run"
    shutil.copytree(stopped, directory)
    FAULTS[fault](directory / "checkpoint-18" / name)
    job = checkpoint.read_json(stopped / "checkpoint-18" / checkpoint.MANIFEST)["job"]
    with caplog.at_level(logging.WARNING):
        found = checkpoint.newest_valid(directory, job)
    assert found is not None
    assert found.step == 16
    assert "checkpoint-18 is not used" in caplog.text
    assert f"moved to {directory}/set_aside/0001-checkpoint-18" in caplog.text
    assert name in caplog.text or name == checkpoint.MANIFEST
    assert [p.name for p in (directory / checkpoint.SET_ASIDE).iterdir()] == ["0001-checkpoint-18"]


def test_checkpoints_of_another_job_are_set_aside_and_none_is_deleted(tmp_path, stopped):
    directory = tmp_path / "run"
    for step in (14, 15, 16, 18):
        shutil.copytree(stopped / "checkpoint-18", directory / f"checkpoint-{step}")
        manifest = checkpoint.read_json(stopped / "checkpoint-18" / checkpoint.MANIFEST)
        manifest["step"] = step
        (directory / f"checkpoint-{step}" / checkpoint.MANIFEST).write_text(json.dumps(manifest))
    for step in (11, 12, 13):
        (directory / f"checkpoint-{step}").mkdir()
    assert checkpoint.newest_valid(directory, {"seed": "another"}) is None
    kept = sorted(p.name for p in (directory / checkpoint.SET_ASIDE).iterdir())
    whole = ["0001-checkpoint-18", "0002-checkpoint-16", "0003-checkpoint-15", "0004-checkpoint-14"]
    assert kept == [*whole, "0006-checkpoint-12", "0007-checkpoint-11"]


def test_whole_checkpoints_without_a_manifest_are_set_aside_and_none_is_deleted(
    base, pairs, tmp_path
):
    fields = {"save_only_model": True, "max_steps": 4, "save_steps": 1, "save_total_limit": 4}
    trainer = make(base, pairs, tmp_path, **fields)
    trainer.train()
    said = "it was never finished, or saved by another trainer or with save_only_model"
    with pytest.raises(TrainingError, match=rf"cannot resume from .*checkpoint-4: .*{said}.*model"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    with pytest.raises(TrainingError, match="holds no valid checkpoint"):
        trainer.train(resume_from_checkpoint=True)
    kept = sorted(path.name[5:] for path in (tmp_path / checkpoint.SET_ASIDE).iterdir())
    assert kept == [f"checkpoint-{step}" for step in (1, 2, 3, 4)]
    further = RewardTrainer(tmp_path / checkpoint.SET_ASIDE / "0001-checkpoint-4", trainer.args)
    assert further.head.origin == "loaded"


def test_a_run_goes_on_from_the_checkpoint_before_a_torn_one(base, pairs, tmp_path, stopped):
    undisturbed = make(base, pairs, tmp_path / "whole")
    undisturbed.train()
    shutil.copytree(stopped, tmp_path / "run")
    (tmp_path / "run" / "checkpoint-18" / "optimizer.pt").unlink()
    resumed = make(base, pairs, tmp_path / "run")
    resumed.train(resume_from_checkpoint=True)
    expected = result(undisturbed, tmp_path / "a")
    assert result(resumed, tmp_path / "b") == expected


def test_a_checkpoint_of_other_params_is_refused_by_their_names(base, pairs, stopped):
    other = make(base, pairs, stopped, learning_rate=2e-3)
    named = (
        r"cannot resume from .*: it belongs to another job: args\.learning_rate 0\.001 -> 0\.002"
    )
    with pytest.raises(TrainingError, match=named):
        other.train(resume_from_checkpoint=str(stopped / "checkpoint-18"))
    renamed = checkpoint.Checkpoint(stopped / "checkpoint-18", 20)
    assert checkpoint.problem(renamed, other.job) == "MANIFEST.json is of step 18"


def test_a_checkpoint_of_other_data_is_refused(base, pairs, stopped):
    other = make(base, pairs, stopped)
    rows = [dict(row) for row in other.train_dataset]
    rows[3]["chosen_input_ids"] = [*rows[3]["chosen_input_ids"][:-1], 59]  # as many, as long
    changed = RewardTrainer(
        str(base),
        other.args,
        train_dataset=rows,
        processing_class=other.processing_class,
    )
    named = r"cannot resume from .*: it belongs to another job: train_data '\w+' -> '\w+'"
    with pytest.raises(TrainingError, match=named):
        changed.train(resume_from_checkpoint=str(stopped / "checkpoint-18"))


def test_without_a_valid_checkpoint_a_resume_is_refused(base, pairs, tmp_path):
    trainer = make(base, pairs, tmp_path / "run")
    with pytest.raises(TrainingError, match="holds no valid checkpoint"):
        trainer.train(resume_from_checkpoint=True)


def test_a_checkpoint_without_optimizer_and_weights_is_never_committed(tmp_path, stopped):
    shutil.copytree(stopped / "checkpoint-18", tmp_path / "checkpoint-18")
    checkpoint.withdraw(tmp_path / "checkpoint-18")
    for name in ("optimizer.pt", "model.safetensors"):
        (tmp_path / "checkpoint-18" / name).unlink()
    required = checkpoint.required_files(1, sharded=False)
    with pytest.raises(TrainingError, match=r"lacks optimizer\.pt, weights; it"):
        checkpoint.commit(tmp_path / "checkpoint-18", 18, {}, required)
