"""The store under faults: damage, kills, waiting, full disks."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.artifact import Step, Store, file_digest
from tasks.artifact.digests import hash_file
from tasks.errors import ArtifactError, DataError, Interrupted

REPOSITORY = Path(__file__).parents[2]


def numbers_step(builds: list[str], size: int = 3, inputs=None, **changes) -> Step:
    """Writes numbers, and notes in `builds` that it was built."""

    def build(workspace):
        builds.append("built")
        with workspace.writing("out/numbers.txt") as path:
            path.write_text("\n".join(map(str, range(size))))
        (workspace.logs / "log.txt").write_text(str(time.time_ns()))
        workspace.report["size"] = size

    return Step("numbers", 1, "1_numbers", {"size": size}, inputs or {}, build, **changes)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "data")


def test_the_second_time_is_a_hit_and_logs_do_not_change_the_digest(store, tmp_path):
    builds: list[str] = []
    first = store.obtain(numbers_step(builds))
    second = store.obtain(numbers_step(builds))
    elsewhere = Store(tmp_path / "other").obtain(numbers_step(builds))
    assert builds == ["built", "built"]
    assert (first.cached, second.cached) == (False, True)
    assert first.reason == "NEVER BUILT"
    assert second.reason.startswith("cached: 1 file as recorded")
    assert first.digest == second.digest == elsewhere.digest
    assert second.report == {"size": 3}
    assert 0 <= first.record["seconds"] <= first.seconds + 0.001


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def replace_its_directory(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_text("no directory")


def flip_keeping_times(path: Path) -> None:
    status = path.stat()
    flip(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("out/numbers.txt", Path.unlink, "DAMAGED out/numbers.txt: missing, expected 5 bytes"),
        ("out/numbers.txt", replace_its_directory, "DAMAGED out/numbers.txt: missing"),
        (
            "out/numbers.txt",
            lambda p: p.write_bytes(b""),
            "DAMAGED out/numbers.txt: 0 bytes, expected 5",
        ),
        ("out/numbers.txt", flip, "DAMAGED out/numbers.txt: its bytes differ"),
        ("out/numbers.txt", flip_keeping_times, "DAMAGED out/numbers.txt: its bytes differ"),
        ("record.json", flip, "record.json is missing or no JSON"),
        ("record.json", Path.unlink, "record.json is missing or no JSON"),
        (
            "record.json",
            lambda p: p.write_text(p.read_text().replace('"size": 3', '"size": 4')),
            "record.json does not match its checksum",
        ),
    ],
)
def test_a_damaged_artifact_is_moved_aside_and_built_again(store, name, damage, reason):
    builds: list[str] = []
    first = store.obtain(numbers_step(builds))
    damage(first.path / name)
    again = store.obtain(numbers_step(builds))
    assert builds == ["built", "built"]
    assert reason in again.reason
    assert again.digest == first.digest
    assert len(list((store.root / ".trash").iterdir())) == 1


def test_large_files_are_hashed_again_when_the_kernel_says_that_they_changed(
    store, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tasks.artifact.digests.SMALL_FILE_BYTES", 0)
    monkeypatch.setattr("tasks.artifact.digests.SETTLED_NANOSECONDS", -1)
    builds: list[str] = []
    first = store.obtain(numbers_step(builds))
    assert store.obtain(numbers_step(builds)).cached
    assert (tmp_path / "cache/reward-pipeline/digests.json").exists()
    flip_keeping_times(first.path / "out/numbers.txt")
    assert not store.obtain(numbers_step(builds)).cached


def test_small_files_are_hashed_again_when_the_kernel_says_that_they_changed(tmp_path, monkeypatch):
    read = []

    def hashed(path):
        read.append(path)
        return hash_file(path)

    path = tmp_path / "a.txt"
    path.write_text("one")
    monkeypatch.setattr("tasks.artifact.digests.SETTLED_NANOSECONDS", 10**18)
    for _ in range(2):  # it may change once more before the clock ticks
        assert file_digest(path, hashed) == hash_file(path)
    assert len(read) == 2
    monkeypatch.setattr("tasks.artifact.digests.SETTLED_NANOSECONDS", -1)
    for _ in range(2):
        assert file_digest(path, hashed) == hash_file(path)
    assert len(read) == 3
    assert file_digest(path, lambda _: "of another kind", "other") == "of another kind"
    flip_keeping_times(path)
    assert file_digest(path, hashed) == hash_file(path)
    shutil.copy2(path, tmp_path / "b.txt")  # as large and as old as that one
    flip_keeping_times(tmp_path / "b.txt")
    assert file_digest(tmp_path / "b.txt", hashed) == hash_file(tmp_path / "b.txt")
    assert len(read) == 5

    def written_meanwhile(path):
        with path.open("a") as file:
            file.write("more")
        return "of neither"

    path.write_text("two")
    assert file_digest(path, written_meanwhile) == "of neither"
    assert file_digest(path) == hash_file(path)


def test_the_reason_names_every_ingredient_that_changed(store):
    builds: list[str] = []
    a = store.obtain(numbers_step(builds, size=1))
    b = store.obtain(numbers_step(builds, size=2))
    assert b.reason == "PARAMS numbers.size 1 -> 2"
    assert store.look(replace(numbers_step(builds), version=2)).reason.startswith("VERSION 1 -> 2")
    with_input = store.obtain(numbers_step(builds, inputs={"first": a}, files={"f": "ab" * 32}))
    assert "INPUT first none -> " in with_input.reason
    changed = numbers_step(builds, inputs={"first": a}, files={"f": "cd" * 32})
    assert store.look(changed).reason == "FILE f abababab -> cdcdcdcd"


def test_the_reason_names_a_section_that_stands_beside_others_as_the_params_file_does(store):
    params = [{"numbers": {"size": n}, "sources": {"a": n}, "list": [n, n]} for n in (1, 2)]
    places = {"numbers": "numbers", "sources": "letters.sources"}
    steps = [replace(numbers_step([]), params=each, places=places) for each in params]
    assert steps[0].key == replace(steps[0], places={}).key
    _, new = [store.obtain(step) for step in steps]
    told = ("numbers.size", "letters.sources.a", "numbers.list.0", "numbers.list.1")
    assert new.reason == "; ".join(f"PARAMS {place} 1 -> 2" for place in told)


@pytest.mark.parametrize("part", ["ingredients", "created", "version", "stage"])
def test_another_artifact_whose_record_is_damaged_costs_no_build(store, part):
    builds: list[str] = []
    other = store.obtain(numbers_step(builds, 3))
    record = other.path / "record.json"
    record.write_text(record.read_text().replace(f'"{part}"', f'"{part[:-1]}?"'))
    assert store.obtain(numbers_step(builds, 4)).reason == "NEVER BUILT"


def test_a_step_that_says_it_no_longer_serves_is_built_again(store):
    builds: list[str] = []
    store.obtain(numbers_step(builds))
    again = store.obtain(numbers_step(builds, still_valid=lambda _: "GONE from the registry"))
    assert (again.cached, again.reason) == (False, "GONE from the registry")


def test_force_builds_again_into_the_same_digest(store):
    builds: list[str] = []
    first = store.obtain(numbers_step(builds))
    again = store.obtain(numbers_step(builds), force=True)
    assert (len(builds), again.cached, again.reason) == (2, False, "FORCED numbers")
    assert first.digest == again.digest


def test_a_failed_build_keeps_finished_units_and_commits_nothing(store):
    done: list[str] = []

    def build(workspace):
        for unit in ("a", "b"):
            if workspace.finished(unit):
                continue
            if unit == "b" and len(done) == 1:
                done.append("failed")
                raise RuntimeError("power cut")
            with workspace.writing(f"{unit}.txt") as path:
                path.write_text(unit)
            workspace.finish(unit, {"rows": 1})
            done.append(unit)

    step = Step("s", 1, "1_s", {}, {}, build)
    with pytest.raises(RuntimeError, match="power cut"):
        store.obtain(step)
    assert store.look(step).artifact is None
    artifact = store.obtain(step)
    assert done == ["a", "failed", "b"]
    assert sorted(artifact.record["files"]) == ["a.txt", "b.txt"]


def test_what_a_build_failed_for_is_noted_until_it_is_tried_again(store):
    errors = [DataError("row 3 is wrong"), Interrupted("stopped"), None]

    def build(workspace):
        assert not note.exists()
        workspace.write_json("a.json", 1)
        if error := errors.pop(0):
            raise error

    step = Step("s", 1, "1_s", {}, {}, build)
    note = store.work(step) / "failed.json"
    with pytest.raises(DataError):
        store.obtain(step)
    assert json.loads(note.read_bytes()) == {"error": "DataError: row 3 is wrong"}
    with pytest.raises(Interrupted):
        store.obtain(step)
    assert not note.exists()
    for left in ("record.json", "logs/stamps.json"):  # killed amid its commit
        (note.parent / left).parent.mkdir(exist_ok=True)
        (note.parent / left).write_text("[")
    assert [*store.obtain(step).record["files"]] == ["a.json"]
    assert store.look(step).artifact


@pytest.mark.catalogue(122)
def test_a_full_disk_leaves_nothing_visible_and_says_what_to_do(store):
    def build(workspace):
        (workspace.path / "half.bin").write_bytes(b"x" * 100)
        raise OSError(28, "No space left on device")

    step = Step("s", 1, "1_s", {}, {}, build)
    with pytest.raises(ArtifactError, match=r"No space left on device .*GB free.*run again"):
        store.obtain(step)
    assert store.look(step).artifact is None


def test_a_checkpoint_that_cannot_be_deleted_does_not_become_part_of_an_artifact(
    store, monkeypatch
):
    def build(workspace):
        (workspace.path / "out.txt").write_text("done")
        (workspace.scratch / "checkpoint").write_text("weights")
        monkeypatch.setattr(os, "unlink", refused)

    def refused(name, *args, **more):
        if name == "checkpoint":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        unlink(name, *args, **more)

    unlink, step = os.unlink, Step("s", 1, "1_s", {}, {}, build)
    with pytest.raises(ArtifactError, match="Permission denied"):
        store.obtain(step)
    assert store.look(step).artifact is None


@pytest.mark.parametrize("target", ["/etc/hosts", "/etc"])
def test_links_are_refused(store, target):
    step = Step("s", 1, "1_s", {}, {}, lambda w: (w.path / "link").symlink_to(target))
    with pytest.raises(ArtifactError, match="no plain file"):
        store.obtain(step)


BUILDER = """
import sys, time
from pathlib import Path
from tasks.artifact import Step, Store
root, seconds = Path(sys.argv[1]), float(sys.argv[2])
def build(workspace):
    with (root / "built.txt").open("a") as log:
        log.write("x")
    time.sleep(seconds)
    (workspace.path / "out.txt").write_text("done")
print("ready", flush=True)
artifact = Store(root).obtain(Step("slow", 1, "1_slow", {}, {}, build))
print(artifact.cached, flush=True)
"""


def builder(root: Path, seconds: float) -> subprocess.Popen[str]:
    root.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(root), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_runs_at_once_build_once(tmp_path):
    first, second = (builder(tmp_path / "data", 1.0) for _ in range(2))
    outcomes = {p.communicate()[0].strip() for p in (first, second)}
    assert outcomes == {"True", "False"}
    assert (tmp_path / "data/built.txt").read_text() == "x"


def test_a_waiter_goes_on_when_the_holder_is_killed(tmp_path):
    holder = builder(tmp_path / "data", 60.0)
    while not (tmp_path / "data/built.txt").exists():
        time.sleep(0.01)
    waiter = builder(tmp_path / "data", 0.0)
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert waiter.communicate(timeout=30)[0].strip() == "False"
    assert (tmp_path / "data/1_slow").is_dir()
