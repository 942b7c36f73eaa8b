"""Verification of a store, and its repair."""

import errno
import os
import re
from pathlib import Path

import pytest

from tasks.artifact import Step, Store
from tasks.artifact.collection import collect, in_use
from tasks.artifact.inventory import verify
from tasks.artifact.lock import locked
from tasks.artifact.repair import repair
from tasks.errors import ArtifactError


def text_step(text: str) -> Step:
    def build(workspace):
        (workspace.path / "text.txt").write_text(text)

    return Step("root", 1, "1_root", {"text": text}, {}, build)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def problems(store) -> dict[Path, str | None]:
    return {verdict.path: verdict.problem for verdict in verify(store)}


def test_verify_names_an_artifact_without_its_record_and_no_other_folder(store):
    torn = store.obtain(text_step("x"))
    (torn.path / "record.json").unlink()
    (store.root / "raw" / "2024").mkdir(parents=True)
    assert problems(store) == {torn.path: f"DAMAGED {torn.path}: record.json is missing or no JSON"}


def test_what_its_owner_keeps_closed_is_named_and_taken_for_nothing_else(store, monkeypatch):
    closed, other = (store.obtain(text_step(text)) for text in ("x", "y"))
    read = Path.read_bytes

    def refused(path):
        if path.parent == closed.path:  # as root, one may read what is closed
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    told = f"user id .* may not read {closed.path}; have its owner open it"
    verdicts, moved = repair(store)
    assert (verdicts, moved) == (verify(store), set())
    assert {v.path: (v.problem is None, v.closed) for v in verdicts} == {
        other.path: (True, False),
        closed.path: (False, True),
    }
    assert re.match(told, problems(store)[closed.path] or "")
    for asked in (lambda: store.obtain(text_step("x")), lambda: collect(store)):
        with pytest.raises(ArtifactError, match=told):
            asked()


def test_what_is_damaged_is_named_and_moved_aside_whole_and_built_again(store):
    good, bad, torn = (store.obtain(text_step(text)) for text in ("good", "bad", "torn"))
    (bad.path / "text.txt").write_text("BAD")
    (torn.path / "record.json").write_text("{")
    foreign = store.root / "raw" / bad.key[::-1]  # named like a key, but nobody has locked it
    foreign.mkdir(parents=True)
    told = problems(store)
    assert told[good.path] is None
    assert "bytes differ" in str(told[bad.path])

    verdicts, moved = repair(store)
    assert {v.path: v.problem for v in verdicts} == told
    assert moved == {bad.path, torn.path}
    assert problems(store) == {good.path: None, foreign: told[foreign]}
    aside = {next(p.glob("*.txt")).read_text(): p.name for p in (store.root / ".trash").iterdir()}
    assert {*aside} == {"BAD", "torn"}
    assert aside["BAD"].startswith(f"1_root-{bad.key}-")
    for text, lost in (("bad", bad), ("torn", torn)):
        again = store.obtain(text_step(text))
        assert (again.cached, again.path, again.digest) == (False, lost.path, lost.digest)


def test_nothing_is_moved_while_a_run_is_going_or_somebody_builds_it(store):
    assert repair(Store(store.root / "not there")) == ([], set())
    bad = store.obtain(text_step("bad"))
    (bad.path / "text.txt").write_text("BAD")
    told = re.escape(f"is using the artifacts below {store.root}; try again once its run has ended")
    with in_use(store), pytest.raises(ArtifactError, match=told):
        repair(store)
    with locked(store.lock(text_step("bad")), "a script"):
        assert [repair(store)[1], bad.path.exists()] == [set(), True]
    assert repair(store)[1] == {bad.path}
