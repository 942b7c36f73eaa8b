"""Garbage collection."""

import errno
import os
import resource
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tasks.artifact import Step, Store
from tasks.artifact.collection import RUNS, collect, in_use
from tasks.artifact.durable import explained_disk_errors
from tasks.artifact.lock import is_locked, locked
from tasks.artifact.refs import RUN, UNFINISHED, facts, keep, refs, release, run_name, used_by
from tasks.errors import ArtifactError


def text_step(name: str, text: str, inputs=None) -> Step:
    def build(workspace):
        (workspace.path / "text.txt").write_text(text)

    return Step(name, 1, f"1_{name}", {"text": text}, inputs or {}, build)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_what_a_kept_run_was_made_from_stays_and_the_rest_goes(store):
    first, root, orphan = (store.obtain(text_step("root", text)) for text in ("a", "b", "unused"))
    left, right = (store.obtain(text_step("side", text, {"root": root})) for text in "lr")
    inputs = {"first": first, "left": left, "right": right}  # to the root there are two ways
    leaf = store.obtain(text_step("leaf", "x", inputs))
    keep(store, "run", "1", [leaf], {"n": 1})
    size = sum(path.stat().st_size for path in orphan.path.rglob("*.*"))
    foretold = [(swept.path, swept.bytes) for swept in collect(store, dry_run=True)]
    assert orphan.path.exists()
    swept = [(swept.path, swept.bytes) for swept in collect(store)]
    assert swept == foretold == [(orphan.path, size)]
    assert all(kept.path.exists() for kept in (first, root, left, right, leaf))
    assert not orphan.path.exists()
    assert facts(refs(store, "run")[-1]) == {"n": 1}


def test_only_the_newest_runs_are_kept_and_pins_stay(store):
    artifacts = [store.obtain(text_step("root", text)) for text in "abcd"]
    deleted = keep(store, "version", "model-1", [artifacts.pop()])
    for name, artifact in zip("123", artifacts, strict=True):
        keep(store, "run", name, [artifact])
    keep(store, "pin", "mine", [artifacts[0]])
    cut = deleted.with_name("run-4.json.tmp")
    cut.write_text("{")
    assert len(collect(store, keep_runs=1, let_go=[deleted])) == 2
    assert not cut.exists()
    assert [a.path.exists() for a in artifacts] == [True, False, True]
    assert sorted(ref.name for ref in refs(store)) == ["pin-mine.json", "run-3.json"]


def test_the_run_that_ends_last_is_the_newest_though_the_clock_was_set_back(store):
    ahead = store.obtain(text_step("root", "by a clock in the year 2999"))
    keep(store, RUN, "29991231T235959.999999Z", [ahead], "ahead")
    for told in ("first", "second"):
        last = store.obtain(text_step("root", told))
        keep(store, RUN, run_name(store), [last], told)
        assert facts(refs(store, RUN)[-1]) == told
    collect(store, keep_runs=1)
    assert (ahead.path.exists(), last.path.exists()) == (False, True)


def test_a_stopped_run_is_the_newest_too_though_the_clock_was_set_back(store):
    keep(store, UNFINISHED, "29991231T235959.999999Z-17", [store.obtain(text_step("root", "a"))])
    last = store.obtain(text_step("root", "b"))
    keep(store, UNFINISHED, run_name(store), [last])
    collect(store, keep_runs=1)
    assert last.path.exists()


def test_a_ref_that_was_named_by_hand_gives_no_time(store):
    keep(store, RUN, "mine", [store.obtain(text_step("root", "a"))])
    assert run_name(store) < "2999"


def test_a_locked_artifact_is_never_taken(store):
    orphan = store.obtain(text_step("root", "x"))
    with locked(store.root / ".locks" / orphan.name, "test"):
        assert collect(store) == []
    assert [swept.path for swept in collect(store)] == [orphan.path]


def test_nothing_is_taken_while_a_run_is_going_that_may_need_it(store):
    between_two_stages = store.obtain(text_step("root", "x"))
    with in_use(store), in_use(store):
        for dry_run in (True, False):
            with pytest.raises(ArtifactError, match=rf"process {os.getpid()} on .* is using"):
                collect(store, dry_run=dry_run)
    assert [swept.path for swept in collect(store)] == [between_two_stages.path]


def test_a_run_that_begins_beside_a_collection_waits_for_its_end(store, caplog):
    caplog.set_level("INFO")
    begun, went_on = threading.Event(), threading.Event()

    def run():
        begun.set()
        with in_use(store):
            went_on.set()

    with locked(store.root / ".locks" / RUNS, "gc"):
        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        assert not went_on.wait(0.5)
    thread.join()
    assert went_on.is_set()
    assert f"waiting for process {os.getpid()}" in caplog.text


def test_abandoned_work_and_old_trash_go_after_the_grace_period(store):
    for name in (".work/a-1", ".trash/b-2"):
        directory = store.root / name
        directory.mkdir(parents=True)
        os.utime(directory, (0, 0))
    fresh = store.root / ".work/c-3"
    fresh.mkdir()
    assert len(collect(store, dry_run=True)) == len(collect(store)) == 2
    assert fresh.exists()


def test_work_whose_last_checkpoint_is_young_is_not_abandoned_however_long_ago_it_began(store):
    work = store.root / ".work" / "training-1"
    checkpoint = work / "scratch" / "checkpoint-9000" / "model.safetensors"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("thirty hours of work")
    for old in (checkpoint.parent, work / "scratch", work):
        os.utime(old, (0, 0))
    assert collect(store) == []
    os.utime(checkpoint, (0, 0))
    assert [swept.path for swept in collect(store)] == [work]


def test_what_has_lost_its_record_is_collected_unless_a_ref_keeps_it(store):
    kept, lost = (store.obtain(text_step("root", text)) for text in "ab")
    keep(store, "pin", "mine", [kept])
    others = store.root / "raw" / "0123456789abcdef"  # named as a key is, but nobody built it
    others.mkdir(parents=True)
    for directory in (kept.path, lost.path, others):
        (directory / "record.json").write_text("{}")
    foretold = collect(store, dry_run=True)
    assert collect(store) == foretold
    assert [(swept.path, swept.why) for swept in foretold] == [
        (lost.path, "out of reach of every ref, its record cannot be read")
    ]
    assert (kept.path.exists(), others.exists()) == (True, True)


def test_nothing_is_collected_while_a_ref_does_not_say_what_it_keeps(store):
    artifact = store.obtain(text_step("root", "x"))
    ref = keep(store, "version", "reward-model-1", [artifact], {"n": 1})
    cut = ref.read_bytes()[:-9]
    for damaged in (cut, b"7", b"[]", b"{}", b'{"keeps": [["root"]]}', b'{"keeps": 7}'):
        ref.write_bytes(damaged)
        for ask in (lambda: collect(store), lambda: facts(refs(store, "version")[-1])):
            with pytest.raises(ArtifactError, match=r"model-1\.json is damaged: expected"):
                ask()
    ref.unlink()
    assert [swept.path for swept in collect(store)] == [artifact.path]


def test_a_ref_that_another_run_removes_meanwhile_keeps_nothing(store):
    artifact = store.obtain(text_step("root", "x"))
    (store.root / "refs").mkdir()
    (store.root / "refs" / "unfinished-1.json").symlink_to("removed after it was listed")
    asking = replace(store, params_file="/a.yaml")
    assert used_by(asking, "/a.yaml") == set()
    assert facts(refs(store, UNFINISHED)[-1]) is None
    both = keep(store, UNFINISHED, "2", [artifact, store.obtain(text_step("root", "y"))])
    keep(store, UNFINISHED, "3", [artifact])
    release(store, [artifact])
    assert refs(store) == [both]


def test_what_was_built_long_ago_lies_in_the_trash_for_the_grace_period_too(store):
    orphan = store.obtain(text_step("root", "x"))
    os.utime(orphan.path, (0, 0))
    foretold = collect(store, dry_run=True)
    assert collect(store) == foretold
    (lying,) = (store.root / ".trash").iterdir()
    assert (lying / "text.txt").read_text() == "x"
    os.utime(lying, (0, 0))
    assert [swept.path for swept in collect(store)] == [lying]
    assert not lying.exists()


def test_what_cannot_be_deleted_is_told_and_counts_as_not_collected(store, monkeypatch, caplog):
    held, other = (store.root / ".trash" / name for name in "ab")
    for directory in (held, other):
        directory.mkdir(parents=True)
        (directory / directory.name).write_text("x")
        os.utime(directory, (0, 0))
    unlink = os.unlink

    def refused(name, *args, **more):
        assert is_locked(store.root / ".locks" / RUNS)
        if name == "a":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        unlink(name, *args, **more)

    monkeypatch.setattr(os, "unlink", refused)
    assert [swept.path for swept in collect(store)] == [other]
    assert f"{held} cannot be deleted: [Errno 13] Permission denied" in caplog.text
    assert (held.exists(), other.exists()) == (True, False)


def test_a_store_that_cannot_be_written_to_is_told_in_one_sentence(store, monkeypatch):
    orphan = store.obtain(text_step("root", "x"))

    def read_only(*_args, **_more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "rename", read_only)
    with pytest.raises(ArtifactError, match=f"cannot write below {store.root}: Read-only file"):
        collect(store)
    assert orphan.path.exists()


def test_a_disk_that_is_full_elsewhere_is_told_by_its_own_place(store, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("another")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/dev/shm/a", None, f"{elsewhere}/x/b")
    with (
        pytest.raises(ArtifactError, match=f"cannot write below {elsewhere}: No space left"),
        explained_disk_errors(store.root),
    ):
        raise full
    with (
        pytest.raises(ArtifactError, match=f"cannot write below {elsewhere}: No space left"),
        explained_disk_errors(elsewhere / "data"),  # not yet made
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{elsewhere}/data/.locks")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_what_reading_meets_too_is_not_told_as_a_refusal_to_write(store, tmp_path, number):
    file = f"{tmp_path}/model/config.json"
    for name, told in (
        (file, f"cannot read or write {file}: "),
        (None, f"write below {store.root}"),
    ):
        with pytest.raises(ArtifactError, match=told), explained_disk_errors(store.root):
            raise OSError(number, os.strerror(number), name)


def test_a_full_disk_is_told_where_only_the_sentence_of_a_library_says_so(store):
    told = "SafetensorError: I/O error: No space left on device (os error 28)"
    with (
        pytest.raises(ArtifactError, match=f"below {store.root}: No space left on device .*free"),
        explained_disk_errors(store.root),
    ):
        raise RuntimeError(told)
    with pytest.raises(RuntimeError, match="os error 2"), explained_disk_errors(store.root):
        raise RuntimeError("(os error 2)")


def test_a_disk_that_is_full_as_numpy_writes_is_told_though_its_error_has_no_number(store):
    with (
        pytest.raises(ArtifactError, match=f"below {store.root}: No space left on device .*free"),
        explained_disk_errors(store.root),
        Path("/dev/full").open("wb") as full,
    ):
        np.zeros(10_000).tofile(full)


def test_a_limit_on_the_size_of_files_is_told_with_what_to_do(store):
    def build(workspace):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            (workspace.path / "large.bin").write_bytes(bytes(5000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with pytest.raises(ArtifactError, match=r"File too large .* raise the limit .*ulimit -f"):
        store.obtain(Step("large", 1, "1_large", {}, {}, build))


def test_a_read_only_store_can_be_looked_at_and_remembers_no_run(store, monkeypatch):
    orphan = store.obtain(text_step("root", "x"))
    collect(store, dry_run=True)

    def read_only(*_args, **_more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def is_full(*_args, **_more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tasks.artifact.collection.locked", is_full)
    with pytest.raises(ArtifactError, match="No space left"), in_use(store):
        pass
    monkeypatch.setattr("tasks.artifact.collection.locked", read_only)
    monkeypatch.setattr(Path, "write_text", read_only)
    with in_use(store):
        assert [swept.path for swept in collect(store, dry_run=True)] == [orphan.path]
        with pytest.raises(ArtifactError, match=f"cannot write below {store.root}: Read-only file"):
            keep(store, "run", "1", [orphan])
