"""A disk that fills up while a checkpoint is saved ends the run with figures, and costs no bits.

A small file system of its own where this may be mounted, and everywhere the limit on the size of a
file: the system refuses to go on writing in either case.
"""

import resource
import subprocess
from contextlib import suppress

import pytest
from transformers import TrainerCallback

from tasks.artifact.durable import explained_disk_errors
from tasks.errors import TrainingError
from tasks.training.checkpoints import checkpoint
from tasks.training.checkpoints.space import checkpoint_bytes, is_full_disk
from tasks.training.handover.export import export
from tests.at_length import at_length
from tests.training.checkpoints.test_checkpoint import make, result

MEGABYTE = 2**20


class Filler(TrainerCallback):
    """Fills the disk in the given step."""

    def __init__(self, fill, step):
        self.fill, self.step = fill, step

    def on_step_end(self, args, state, control, **_):  # noqa: ARG002
        if state.global_step == self.step:
            self.fill()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no file system may be mounted here")
    yield place
    # an error's traceback may still hold a file of it open
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fail_and_go_on(base, pairs, directory, models, fill, empty):
    """Fails at step 8, after checkpoint-4, and goes on; returns the sentence of the failure."""
    whole = make(base, pairs, models / "whole")
    whole.train()
    trainer = make(base, pairs, directory)
    trainer.add_callback(Filler(fill, 8))
    try:
        with pytest.raises(TrainingError) as failure:
            trainer.train()
    finally:
        empty()
    needed = checkpoint_bytes(trainer.model, trainer.optimizer)
    written = sum(p.stat().st_size for p in (directory / "checkpoint-4").glob("*.[sp]*t*"))
    assert 0.8 * written < needed < written
    assert [c.step for c in checkpoint.checkpoints(directory)] == [4]
    resumed = make(base, pairs, directory)
    assert resumed.newest_checkpoint().step == 4
    resumed.train(resume_from_checkpoint=True)
    assert result(resumed, models / "b") == result(whole, models / "a")
    return str(failure.value)


@pytest.mark.catalogue(122)
@pytest.mark.parametrize("share", [0.9, *at_length(0.0, 0.1, 0.5)])
def test_a_full_disk_is_told_with_its_figures_and_the_checkpoint_before_stands(
    base, pairs, tmp_path, small_disk, share
):
    def fill():
        files = [p for p in (small_disk / "run" / "checkpoint-4").iterdir() if p.is_file()]
        of_a_checkpoint = sum(p.stat().st_size for p in files)
        with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        size = (small_disk / "filler").stat().st_size
        with (small_disk / "filler").open("r+b") as file:
            file.truncate(size - int(share * of_a_checkpoint))

    def empty():
        (small_disk / "filler").unlink()

    said = fail_and_go_on(base, pairs, small_disk / "run", tmp_path, fill, empty)
    assert f"checkpoint-8 could not be written to {small_disk}/run: it needs about 0." in said
    assert " MB are free (" in said
    assert "checkpoint-4 stands, and running again continues from it. Make room" in said


@pytest.mark.slow
@pytest.mark.catalogue(122)
@pytest.mark.parametrize("limit", [1000, 40_000])
def test_a_file_that_may_not_grow_is_told_alike(base, pairs, tmp_path, limit):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    said = fail_and_go_on(
        base,
        pairs,
        tmp_path / "run",
        tmp_path,
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1])),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before),
    )
    assert "checkpoint-8 could not be written to" in said
    assert "checkpoint-4 stands" in said


def test_a_trained_model_that_finds_no_room_is_told_with_its_figures_in_a_stage_too(
    base, pairs, tmp_path
):
    trainer = make(base, pairs, tmp_path / "run")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with (
            pytest.raises(TrainingError, match=r"the trained model could .*needs about 0\.0\d MB"),
            explained_disk_errors(tmp_path),  # as the process of a stage has it, and the store
        ):
            export(trainer, tmp_path / "out", tokens=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_another_error_is_no_full_disk():
    assert not is_full_disk(ValueError("no space between words"))
    assert not is_full_disk(PermissionError(13, "Permission denied"))
