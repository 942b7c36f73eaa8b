"""What nobody has written to since the commit is not read again; all else is, whatever it says."""

import os
import shutil
import time

import pytest

from tasks.artifact import Memo, Step, Store, Workspace
from tasks.artifact.collection import collect
from tasks.artifact.digests import digests_of, hash_file, move, remember
from tasks.artifact.durable import fsync_bytes
from tasks.artifact.inventory import verify
from tasks.artifact.record import damage
from tasks.artifact.refs import keep
from tasks.artifact.sharded_stage import REUSED, build_shards
from tasks.artifact.stamps import STAMPS, TICK_NANOSECONDS, stamp
from tasks.errors import DataError

NAMES = ("out/a.txt", "out/b.txt")
SETTLED = 2e-9 * TICK_NANOSECONDS
"""Seconds after which the clock has ticked."""


def _build(workspace):
    for name in NAMES:
        with workspace.writing(name) as path:
            path.write_text(f"the bytes of {name}")
    time.sleep(SETTLED)


STEP = Step("stage", 1, "1_stage", {}, {}, _build)


@pytest.fixture
def read(monkeypatch):
    """Files that are read to be believed."""
    found: list[str] = []

    def watched(path):
        found.append(path.name)
        return real(path)

    for module in ("record", "memo"):
        real = __import__(f"tasks.artifact.{module}", fromlist=["_"]).file_digest
        monkeypatch.setattr(f"tasks.artifact.{module}.file_digest", watched)
    monkeypatch.setattr("tasks.artifact.record.hash_file", watched)
    return found


def _written_keeping_times(path):
    status, content = path.stat(), path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _replaced(path):
    path.rename(path.with_name("aside"))
    shutil.copy2(path.with_name("aside"), path)
    path.with_name("aside").unlink()


def _linked(path):
    os.link(path, path.parents[4] / "another name")


def test_untouched_files_are_not_read_unless_that_is_asked_for(tmp_path, read):
    artifact = Store(tmp_path / "data").obtain(STEP)
    assert Store(tmp_path / "data").obtain(STEP).cached
    assert [v.problem for v in verify(Store(tmp_path / "data"))] == [None]
    assert read == []
    assert [v.problem for v in verify(Store(tmp_path / "data"), deep=True)] == [None]
    assert sorted(read) == ["a.txt", "b.txt"]
    read.clear()
    (artifact.path / NAMES[1]).write_text("the bytes of out/b.tx?")
    assert damage(artifact) == "DAMAGED out/b.txt: its bytes differ from the recorded SHA-256"
    assert read == ["b.txt"]
    read.clear()
    assert damage(artifact, deep=True) == (
        "DAMAGED out/b.txt: its bytes differ from the recorded SHA-256"
    )


@pytest.mark.parametrize("touch", [_replaced, _linked])
def test_what_has_been_touched_is_read_and_believed_by_its_bytes(tmp_path, read, touch):
    artifact = Store(tmp_path / "data").obtain(STEP)
    touch(artifact.path / NAMES[0])
    assert damage(artifact) is None
    assert read == ["a.txt"]


def test_a_digest_is_remembered_until_the_file_is_written_to(tmp_path):
    path, place = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("a")
    remember(path, "told")
    move(path, place)
    assert digests_of({place: stamp(place)}) == {place: "told"}
    place.write_text("bb")
    assert digests_of({place: stamp(place)}) == {place: hash_file(place)}
    move(place, path)
    assert digests_of({path: stamp(path)}) == {path: hash_file(path)}


def test_a_change_that_hides_its_time_is_found(tmp_path):
    artifact = Store(tmp_path / "data").obtain(STEP)
    _written_keeping_times(artifact.path / NAMES[0])
    again = Store(tmp_path / "data").obtain(STEP)
    assert not again.cached
    assert again.reason == "DAMAGED out/a.txt: its bytes differ from the recorded SHA-256"
    assert again.digest == artifact.digest


@pytest.mark.parametrize("notes", ["", "[]", "{", '{"out/a.txt": null}'])
def test_without_sound_notes_all_is_read(tmp_path, read, notes):
    artifact = Store(tmp_path / "data").obtain(STEP)
    (artifact.path / STAMPS).write_text(notes)
    assert damage(artifact) is None
    assert sorted(read) == ["a.txt", "b.txt"]


def test_an_artifact_that_was_copied_is_believed_by_its_bytes(tmp_path, read):
    Store(tmp_path / "data").obtain(STEP)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    assert Store(tmp_path / "copy").obtain(STEP).cached
    assert sorted(read) == ["a.txt", "b.txt"]


def test_what_is_written_to_while_it_is_committed_is_read(tmp_path, monkeypatch):
    def late(files):
        target = next(path for path in files if path.name == "a.txt")
        _written_keeping_times(target)
        fsync_bytes(files)

    monkeypatch.setattr("tasks.artifact.store.fsync_bytes", late)
    Store(tmp_path / "data").obtain(STEP)
    monkeypatch.undo()
    again = Store(tmp_path / "data").obtain(STEP)
    assert again.reason == "DAMAGED out/a.txt: its bytes differ from the recorded SHA-256"


def test_what_changed_a_moment_before_the_commit_is_read(tmp_path, read):
    def build(workspace):
        _build(workspace)
        (workspace.path / NAMES[1]).write_text("within a tick")

    step = Step("stage", 1, "1_stage", {}, {}, build)
    artifact = Store(tmp_path / "data").obtain(step)
    assert damage(artifact) is None
    assert read == ["b.txt"]


def test_the_collection_leaves_the_notes_of_what_it_shares_with_others_true(tmp_path, read):
    shards = _shards(tmp_path, 3)
    store = Store(tmp_path / "data")
    first = store.obtain(_of_shards(shards[:2]))
    second = store.obtain(_of_shards(shards))
    keep(store, "pin", "second", [second])
    assert [swept.path for swept in collect(store)] == [first.path]
    for trash in (tmp_path / "data/.trash").iterdir():
        os.utime(trash, (0, 0))
    (tmp_path / "data/1_stage" / second.key / "out/1.txt").write_text("something else")
    collect(store)
    assert not [*(tmp_path / "data/.trash").iterdir()]
    assert damage(second) == "DAMAGED out/1.txt: 14 bytes, expected 9"
    assert read == []
    (second.path / "out/1.txt").write_text("rows of ?")
    assert damage(second) == "DAMAGED out/1.txt: its bytes differ from the recorded SHA-256"
    assert read == ["1.txt"]


def _shards(directory, count, content="rows of {}"):
    shards = [directory / f"{number}.in" for number in range(count)]
    for shard in shards:
        shard.write_text(content.format(shard.stem))
    return shards


def _of_shards(shards, empty=()):
    """A step over shards, that makes a file of each; of some no row is left."""

    def build(workspace):
        def work(shard, ledger, _quarantine):
            with workspace.writing(f"out/{shard.stem}.txt") as path:
                path.write_text(shard.read_text())
            ledger.count_in("s")
            if shard.stem in empty:
                ledger.drop("s", "no")
            else:
                ledger.count_out("s")
            time.sleep(SETTLED)
            return {"n": 1}

        memo = Memo(workspace, {shard.stem: shard.read_text() for shard in shards}, step={"a": 1})
        build_shards(workspace, "stage", shards, work, memo=memo)
        time.sleep(SETTLED)

    return Step("stage", 1, "1_stage", {"shards": [shard.stem for shard in shards]}, {}, build)


def test_a_kept_shard_is_read_only_where_somebody_has_written_to_it(tmp_path, read):
    shards = _shards(tmp_path, 4)
    store = Store(tmp_path / "data")
    first = store.obtain(_of_shards(shards[:2]))
    second = store.obtain(_of_shards(shards[:3]))
    assert second.report[REUSED] == "2 of 3"
    assert read == []
    third = store.obtain(_of_shards(shards[1:3]))  # of the newest artifact: its notes hold
    assert third.report[REUSED] == "2 of 2"
    assert read == []
    assert damage(first) is None  # linked since then, and the same
    assert sorted(read) == ["0.txt", "1.txt"]
    _written_keeping_times(third.path / "out/1.txt")  # one file by three names
    read.clear()
    fourth = store.obtain(_of_shards(shards))
    assert fourth.report[REUSED] == "2 of 4"
    assert (fourth.path / "out/1.txt").read_text() == "rows of 1"
    assert {*read} == {"1.txt"}


def test_what_was_taken_lasts_before_a_unit_is_marked_as_done(tmp_path, monkeypatch):
    """Where no row is left, for who has more to say of it: the commit, which never comes, would
    have made the links last."""
    shards = _shards(tmp_path, 3)
    store = Store(tmp_path / "data")
    store.obtain(_of_shards(shards, empty=("0", "1")))
    events: list[str] = []
    monkeypatch.setattr("tasks.artifact.memo.fsync", lambda path: events.append(path.name))
    monkeypatch.setattr(
        Workspace, "finish", lambda _, unit, _summary: events.append(f"mark {unit}")
    )
    with pytest.raises(DataError, match="no row is left"):
        store.obtain(_of_shards(shards[:2], empty=("0", "1")))
    assert {*events[:2]} == {"out", "units"}
    assert events[2:] == ["mark 0", "mark 1"]


def test_shards_of_equal_bytes_are_all_taken(tmp_path):
    """They have one note, and are taken side by side."""
    shards = _shards(tmp_path, 16, "the same rows")
    store = Store(tmp_path / "data")
    store.obtain(_of_shards(shards[:12]))
    for count in (13, 14, 15, 16):
        made = store.obtain(_of_shards(shards[:count]))
        assert made.report[REUSED] == f"{count} of {count}"
        assert len([*(made.path / "out").iterdir()]) == count
        assert len([*(made.path / "logs/units").iterdir()]) == 1
