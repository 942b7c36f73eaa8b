"""Files that are made to last behind the work: no mark speaks of one that might not."""

import errno
import os
import time
from pathlib import Path

import pytest

from tasks.artifact import Workspace, durable, each, pool
from tasks.artifact.fsyncs import run_in_order
from tasks.artifact.sharded_stage import build_shards
from tests.artifact.shard_work import LastsNot

NAMES = [f"{number:05d}" for number in range(6)]
FOLDERS = ("train", "eval")


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(tmp_path / "data/.work/x", -1)


@pytest.fixture
def events(monkeypatch) -> list[str]:
    """Names of what was made to last, and units that were marked, one after the other."""
    found: list[str] = []
    fsync, mark = durable.fsync, Workspace._mark

    def watched_fsync(path):
        time.sleep(0.002)  # a disk has its time
        fsync(path)
        found.append(path.name if path.is_dir() else f"{path.parent.name}/{path.stem}")

    def watched_mark(self, unit, summary):
        found.append(f"mark {unit}")
        mark(self, unit, summary)

    monkeypatch.setattr(durable, "fsync", watched_fsync)
    monkeypatch.setattr(Workspace, "_mark", watched_mark)
    return found


def build(workspace: Workspace, pause: float = 0.0, bad: str = "") -> None:
    def work(shard, ledger, _quarantine):
        if shard.stem == bad:
            raise ValueError("bad")
        time.sleep(pause)
        ledger.count_in("s")
        ledger.count_out("s")
        for folder in FOLDERS:
            with workspace.writing(f"{folder}/{shard.stem}.x", "by_mark") as path:
                path.write_text(shard.stem)
            assert (workspace.path / folder / f"{shard.stem}.x").exists()
        return {}

    build_shards(workspace, "stage", [Path(f"{name}.parquet") for name in NAMES], work)


def test_a_unit_is_marked_once_its_files_last_and_all_are_at_the_end(workspace, events):
    build(workspace)
    assert all(workspace.finished(name) for name in NAMES)
    since = 0
    for name in NAMES:
        marked = events.index(f"mark {name}")
        own = events[since:marked]
        assert own == [event for folder in FOLDERS for event in (f"{folder}/{name}", folder)]
        since = marked + 1


@pytest.mark.parametrize("pause", [0.0, 0.05], ids=["slow disk", "slow work"])
def test_a_file_that_does_not_last_is_an_error_and_no_unit_is_marked_from_it_on(
    workspace, events, monkeypatch, pause
):
    fsync = durable.fsync

    def full(path):
        if path.stem == NAMES[2]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(path)

    monkeypatch.setattr(durable, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        build(workspace, pause)
    assert [event for event in events if event.startswith("mark")] == [
        f"mark {name}" for name in NAMES[:2]
    ]
    monkeypatch.setattr(durable, "fsync", fsync)
    build(workspace)
    assert all(workspace.finished(name) for name in NAMES)


def test_where_the_work_fails_what_was_done_before_is_marked(workspace, events):
    with pytest.raises(ValueError, match="bad"):
        build(workspace, bad=NAMES[3])
    assert [event for event in events if event.startswith("mark")] == [
        f"mark {name}" for name in NAMES[:3]
    ]


def test_what_a_worker_wrote_is_waited_for_and_its_failure_is_raised_here(tmp_path):
    try:
        each(LastsNot(tmp_path, os.getpid(), fails=False), ["a", "b"], 2, "stage")
        assert (tmp_path / "lasts").exists()
        with pytest.raises(OSError, match="No space left") as raised:
            each(LastsNot(tmp_path, os.getpid(), fails=True), ["c", "d"], 2, "stage")
        assert "shard_work.py" in "".join(raised.value.__notes__)
    finally:
        pool.end()


def test_without_anybody_who_waits_it_is_done_at_once():
    done: list[int] = []
    run_in_order(done.append, 1)
    assert done == [1]
