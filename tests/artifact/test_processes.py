"""Shards shared by this process and its workers, and what happens when one of them ends."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from tasks.artifact import (
    each,
    end_workers,
    physical_cores,
    pool,
    processes,
    processes_for,
    worthwhile,
)
from tasks.artifact.job import Job
from tasks.artifact.lock import is_locked
from tasks.artifact.store import Store
from tasks.errors import ArtifactError
from tests.artifact.shard_work import Elsewhere, Meet, Note, NoteThreads, step, wait_for

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_worker_is_left():
    pool.end()
    yield
    pool.end()


def who(path: Path) -> int:
    return int(path.read_text())


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_this_process_takes_its_share_and_the_next_stage_finds_the_same_worker(tmp_path):
    pids = []
    for stage in ("first", "second"):
        (tmp_path / stage).mkdir()
        each(Meet(tmp_path / stage), ["a", "b"], 2, stage)
        pids.append({who(tmp_path / stage / name) for name in ("a", "b")})
    assert pids[0] == pids[1] == {os.getpid(), *pool.ready()}
    assert len(pids[0]) == 2


@pytest.mark.parametrize(("cores", "beside"), [(2, "False"), (3, "True")])
def test_only_where_a_core_is_free_the_processes_have_threads_beside_their_work(
    tmp_path, monkeypatch, cores, beside
):
    monkeypatch.setattr("tasks.artifact.processes.physical_cores", lambda: cores)
    each(NoteThreads(tmp_path), ["a", "b"], 2, "stage")
    assert [(tmp_path / f"{name}.ahead").read_text() for name in "ab"] == [beside, beside]
    each(NoteThreads(tmp_path), ["a"], 1, "alone")
    assert (tmp_path / "a.ahead").read_text() == "True"


def test_nobody_waits_for_a_worker_that_is_not_ready(tmp_path):
    worker = pool.begin(1)[0].process.pid
    os.kill(worker, signal.SIGSTOP)
    each(Note(tmp_path), ["a", "b", "c"], 2, "stage")
    assert {who(path) for path in tmp_path.iterdir()} == {os.getpid()}
    os.kill(worker, signal.SIGCONT)
    until(pool.ready)
    (tmp_path / "next").mkdir()
    each(Meet(tmp_path / "next"), ["a", "b"], 2, "next")
    assert pool.ready() == [worker]


def test_more_processes_are_asked_for_where_there_is_more_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.artifact.processes.physical_cores", lambda: 3)
    assert [processes_for(200, least) for least in (201, 200, 100, 10)] == [1, 2, 3, 3]
    (tmp_path / "shard").write_bytes(b"x" * 100)
    monkeypatch.setattr("tasks.artifact.processes.WORTH_PROCESSES_BYTES", 100)
    assert [worthwhile([tmp_path / "shard"] * shards) for shards in (0, 1, 2)] == [1, 2, 3]
    pool.begin(1)
    until(pool.ready)
    assert processes_for(200, 201) == 2  # it is there, and costs nothing


def test_a_container_uses_no_more_cores_than_its_quota_gives_it(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "QUOTA", tmp_path / "cpu.max")
    without = physical_cores()
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert physical_cores() == without
    (tmp_path / "cpu.max").write_text("20000 100000\n")
    assert physical_cores() == 1
    (tmp_path / "cpu.max").write_text(f"{100000 * without - 1} 100000\n")
    assert physical_cores() == without


def test_a_worker_without_work_ends_and_the_next_call_has_a_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "REST_SECONDS", 0.01)
    worker = pool.begin(1)[0].process
    until(lambda: worker.returncode is not None)
    assert pool.ready() == []
    each(Meet(tmp_path), ["a", "b"], 2, "stage")
    assert worker.pid not in {who(tmp_path / name) for name in ("a", "b")}


def test_a_forked_child_leaves_the_workers_of_its_parent_alone(tmp_path):
    pool.begin(1)
    until(pool.ready)
    workers = pool.ready()
    with warnings.catch_warnings():  # that forking beside threads is delicate is known
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        pool.end()
        os._exit(len(pool.ready()))
    assert os.waitpid(child, 0)[1] == 0
    each(Meet(tmp_path), ["a", "b"], 2, "stage")
    assert pool.ready() == workers


def test_a_relative_path_means_the_same_in_a_worker_that_was_started_elsewhere(
    tmp_path, monkeypatch
):
    pool.begin(1)
    monkeypatch.chdir(tmp_path)
    each(Meet(Path()), ["a", "b"], 2, "stage")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_workers_that_nobody_waits_for_are_gone_all_the_same(tmp_path):
    each(Meet(tmp_path), ["a", "b"], 2, "stage")
    [worker] = pool.ready()
    end_workers()
    assert pool.ready() == []
    until(lambda: not Path(f"/proc/{worker}").exists())  # nor is it left behind as a zombie


def test_a_killed_worker_is_told_and_the_next_call_has_a_new_one(tmp_path):
    work = Elsewhere(tmp_path, os.getpid(), "is killed")
    with pytest.raises(ArtifactError, match=r"stage: a worker process was killed.*fewer .* than 2"):
        each(work, range(100), 2, "stage")
    assert (tmp_path / "done-0").exists()
    assert not is_running(who(tmp_path / "worker"))
    (tmp_path / "next").mkdir()
    each(Meet(tmp_path / "next"), ["a", "b"], 2, "next")
    assert who(tmp_path / "worker") not in pool.ready()


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("raises", ValueError, r"^item \d+ is bad"),
        ("raises what cannot be copied", RuntimeError, "^NoCopy: first second"),
    ],
)
def test_a_failure_is_raised_here_with_its_place_and_no_item_is_begun_after_it(
    what, error, words, tmp_path, monkeypatch
):
    finish = Job.finish

    def told(job, failure=None):
        finish(job, failure)
        if failure:
            (tmp_path / "told").touch()

    monkeypatch.setattr(Job, "finish", told)
    with pytest.raises(error, match=words) as raised:
        each(Elsewhere(tmp_path, os.getpid(), what), range(100), 2, "stage")
    assert "shard_work.py" in "".join(raised.value.__notes__)
    assert {path.name for path in tmp_path.glob("done-*")} == {"done-0"}
    assert not is_running(who(tmp_path / "worker"))


def test_an_interrupt_here_ends_what_a_worker_is_at(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        each(Elsewhere(tmp_path, os.getpid(), "parent is interrupted"), range(3), 2, "stage")
    assert not is_running(who(tmp_path / "worker"))
    assert pool.ready() == []


def test_work_that_cannot_be_sent_is_refused_before_any_is_done(tmp_path):
    with pytest.raises(ArtifactError, match=r"stage: its work cannot be sent .* one worker"):
        each(lambda name: (tmp_path / name).touch(), ["a", "b"], 2, "stage")
    assert not any(tmp_path.iterdir())


def test_a_killed_parent_leaves_no_worker_and_no_later_run_begins_beside_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "tests.artifact.shard_work", str(tmp_path)]
    parent = subprocess.Popen(command, cwd=REPOSITORY)
    for name in ("a", "b"):
        wait_for(tmp_path / name)
    (worker,) = {who(tmp_path / name) for name in ("a", "b")} - {parent.pid}
    lock = Store(tmp_path / "data").lock(step(tmp_path, []))
    parent.kill()
    parent.wait()
    assert is_running(worker)  # it is in the middle of a call, and might still write
    assert is_locked(lock)
    os.close(os.open(tmp_path / "pipe", os.O_WRONLY))
    until(lambda: not is_running(worker))
    assert not is_locked(lock)
    assert Store(tmp_path / "data").obtain(step(tmp_path, [])).reason == "NEVER BUILT"


def test_a_worker_imports_nothing_of_the_program_that_started_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.artifact.shard_work import Meet\n"
        "from tasks.artifact import each\n"
        "with Path(sys.argv[1]).open('a') as log:\n"
        "    log.write('x')\n"
        "each(Meet(Path(sys.argv[2])), ['a', 'b'], 2, 'stage')\n"
    )
    (tmp_path / "met").mkdir()
    command = [sys.executable, str(program), str(tmp_path / "log"), str(tmp_path / "met")]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    assert (tmp_path / "log").read_text() == "x"
    assert not is_running(who(tmp_path / "met/a"))
    assert not is_running(who(tmp_path / "met/b"))
