"""The order in which a commit makes things last."""

import os
from pathlib import Path

import pytest

from tasks.artifact import Step, Store, durable
from tasks.artifact.digests import hash_file
from tasks.artifact.record import damage
from tasks.artifact.stamps import STAMPS
from tasks.artifact.threads import MOST_THREADS


@pytest.mark.parametrize(
    ("lasts", "expected"),
    [
        ("now", ["fsync a.tmp", "replace a.tmp", "fsync the folder"]),
        ("by_mark", ["replace a.tmp", "background fsync a", "background fsync the folder"]),
        ("later", ["replace a.tmp"]),
    ],
)
def test_what_is_written_lasts_when_it_has_to(lasts, expected, tmp_path, monkeypatch):
    events: list[str] = []

    def named(path):
        return "the folder" if path == tmp_path else path.name

    real = Path.replace
    monkeypatch.setattr(durable, "fsync", lambda path: events.append(f"fsync {named(path)}"))
    monkeypatch.setattr(
        durable, "run_in_order", lambda _, path: events.append(f"background fsync {named(path)}")
    )
    monkeypatch.setattr(
        Path, "replace", lambda a, b: (events.append(f"replace {named(a)}"), real(a, b))
    )
    with durable.writing(tmp_path / "a", lasts) as path:
        path.write_text("x")
    assert events == expected
    assert (tmp_path / "a").read_text() == "x"


def test_all_bytes_last_before_all_names_and_both_before_the_rename(tmp_path, monkeypatch):
    events: list[str] = []

    def build(workspace):
        for number in range(MOST_THREADS):
            with workspace.writing(f"durable/deep/{number}.txt") as path:
                path.write_text("x")
        workspace.finish("unit", {"rows": 1})
        for number in range(MOST_THREADS):
            (workspace.path / f"{number}.txt").write_text("x")
        (workspace.path / "0.txt").chmod(0o600)
        (workspace.logs / "log.txt").write_text("x")
        events.clear()

    def watch(owner, name, path_of):
        real = getattr(owner, name)

        def watched(what, *args):
            events.append(f"{name} {path_of(what)}")
            return real(what, *args)

        monkeypatch.setattr(owner, name, watched)

    for name in ("fsync", "fdatasync"):
        watch(os, name, lambda descriptor: Path(f"/proc/self/fd/{descriptor}").readlink())
    watch(Path, "rename", str)
    store = Store(tmp_path / "data")
    step = Step("s", 1, "1_s", {}, {}, build)
    artifact = store.obtain(step)
    work = store.work(step)
    files = [path for path in artifact.path.rglob("*") if path.is_file()]
    bytes_last = {
        events.index(f"fdatasync {work / path.relative_to(artifact.path)}") for path in files
    }
    names_last = {
        len(events) - 1 - events[::-1].index(f"fsync {work / name}")
        for name in (".", "durable", "durable/deep", "logs")
    }
    rename = events.index(f"rename {work}")
    assert len(bytes_last) == 2 * MOST_THREADS + 3  # with the log, the stamps and the record
    assert max(bytes_last) < min(names_last)
    assert max(names_last) < rename
    assert events[rename + 1 :] == [f"fsync {artifact.path.parent}"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}


def test_a_file_that_goes_while_it_is_verified_is_told_as_missing(tmp_path, monkeypatch):
    def build(workspace):
        for name in "ab":
            (workspace.path / name).write_text(name)

    artifact = Store(tmp_path).obtain(Step("durable", 1, "durable", {}, {}, build))

    def gone(path):
        path.unlink()
        return hash_file(path)

    assert damage(artifact) is None
    (artifact.path / STAMPS).unlink()
    monkeypatch.setattr("tasks.artifact.record.file_digest", gone)
    assert damage(artifact) == "DAMAGED a: missing, expected 1 bytes"
