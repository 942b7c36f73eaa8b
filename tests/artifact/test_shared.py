"""A store that several users share: what one of them made, another goes on with."""

import errno
import fcntl
import os
from pathlib import Path
from stat import S_IMODE

import pytest

from tasks.artifact import Step, Store
from tasks.artifact.collection import collect, in_use
from tasks.artifact.lock import is_locked, locked
from tasks.errors import ArtifactError


@pytest.fixture
def as_another(tmp_path, monkeypatch):
    """Runs in a directory that all may write to; `as_another()` makes this process another user,
    where it may: of one that is not root, what is its own is closed to it just as well."""
    tmp_path.chmod(0o777)
    monkeypatch.chdir(tmp_path)  # relative paths do not pass the closed directories above it
    before = os.geteuid()
    yield lambda: os.seteuid(65534) if before == 0 else None
    os.seteuid(before)


def test_who_shares_the_group_may_lock_what_another_locked_first(tmp_path):
    before = os.umask(0o002)
    try:
        with locked(tmp_path / "lock", "test"):
            assert S_IMODE((tmp_path / "lock").stat().st_mode) == 0o664
    finally:
        os.umask(before)


@pytest.mark.parametrize("shared", [True, False])
def test_a_lock_that_only_its_maker_may_write_to_is_held_all_the_same(as_another, shared):
    lock = Path("lock")
    lock.touch()
    lock.chmod(0o444)
    as_another()
    with locked(lock, "test", shared=shared):
        assert is_locked(lock)
    assert not is_locked(lock)


def test_a_lock_that_cannot_be_had_is_refused_and_not_taken_for_held(as_another, monkeypatch):
    closed = Path("closed")
    closed.mkdir(0o555)
    as_another()
    with pytest.raises(PermissionError), locked(closed / "lock", "test"):
        pass

    def without(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", without)
    with pytest.raises(ArtifactError, match="has no flock; keep data/ on"), locked(Path("a"), "b"):
        pass


def test_nothing_is_collected_from_under_the_run_of_another_user(as_another):
    store = Store(Path("data"))
    with in_use(store):
        pass
    (store.root / ".locks" / "runs").chmod(0o444)
    as_another()
    with in_use(store), pytest.raises(ArtifactError, match="is using the artifacts"):
        collect(store)


def test_work_that_another_user_began_is_finished_with_his_files_as_they_are(as_another):
    def build(workspace):
        begun = workspace.path / "begun.txt"
        if not begun.exists():
            begun.write_text("his")
            raise KeyboardInterrupt
        (workspace.path / "mine.txt").write_text("mine")

    store, step = Store(Path("data")), Step("s", 1, "1_s", {}, {}, build)
    before = os.umask(0)
    try:
        with pytest.raises(KeyboardInterrupt):
            store.obtain(step)
        as_another()
        artifact = store.obtain(step)
    finally:
        os.umask(before)
    assert sorted(artifact.record["files"]) == ["begun.txt", "mine.txt"]
    assert store.look(step).artifact
