"""The supervisor leaves nothing behind, whoever dies first, and hands out the lock."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tasks.artifact.lock import is_locked

DEADLINE = 30.0
SUPERVISOR = "tasks.training.process.supervisor"

# Holds the lock as a training process does, starts a process in a session of its own, and waits.
CHILD = """
import os, subprocess, sys, time
from tasks.training.process.supervisor import leash_and_lock
from tasks.training.checkpoints.stopping import StopRequest
leash, lock = leash_and_lock()
request = StopRequest()
request.saves = True
request.on_signals()
request.on_broken_leash(leash)
stray = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(os.getpid(), stray.pid, flush=True)
while not request.reason:
    time.sleep(0.02)
time.sleep(float(sys.argv[2]))
open(sys.argv[1], "w").write(request.reason)
sys.exit(75)
"""


def start(tmp_path, command, grace=20):
    """A supervisor under a lock and a leash, as `launch` starts it; and the leash's other end."""
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    leash, hand = os.pipe()
    supervisor = subprocess.Popen(
        [sys.executable, "-m", SUPERVISOR, str(leash), str(lock), str(grace), "--", *command],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=(leash, lock),
    )
    os.close(leash)
    os.close(lock)
    return supervisor, hand


def alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until(condition):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("command", "code"), [(["true"], 0), (["sh", "-c", "exit 3"], 3)])
def test_the_command_s_exit_code_is_reported(tmp_path, command, code):
    supervisor, hand = start(tmp_path, command)
    with supervisor:
        assert supervisor.wait(DEADLINE) == code
    os.close(hand)
    assert not is_locked(tmp_path / "lock")


def test_a_command_that_was_killed_is_told_from_one_that_failed(tmp_path):
    supervisor, hand = start(tmp_path, ["sh", "-c", "kill -9 $$"])
    with supervisor:
        assert supervisor.wait(DEADLINE) == 128 + 9
    os.close(hand)


def test_what_outlives_the_command_is_ended(tmp_path):
    supervisor, hand = start(tmp_path, ["sh", "-c", "setsid sleep 300 & echo $!"])
    with supervisor:
        stray = int(supervisor.stdout.readline())
        assert supervisor.wait(DEADLINE) == 0
    os.close(hand)
    assert not alive(stray)


@pytest.mark.parametrize("end", ["leash", "signal", "supervisor killed too"])
def test_the_tree_saves_and_ends_and_the_lock_lives_until_then(tmp_path, end):
    note = tmp_path / "note"
    supervisor, hand = start(tmp_path, [sys.executable, "-c", CHILD, str(note), "0"])
    child, stray = map(int, supervisor.stdout.readline().split())
    assert is_locked(tmp_path / "lock")
    with suppress(ProcessLookupError):
        if end == "leash":
            os.close(hand)
        elif end == "signal":
            supervisor.send_signal(signal.SIGTERM)
        else:
            supervisor.kill()
            supervisor.wait()
            assert is_locked(tmp_path / "lock"), "the training process must hold the lock itself"
            os.close(hand)
    wait_until(lambda: not alive(child))
    assert note.read_text() == ("SIGTERM" if end == "signal" else note.read_text())
    assert note.read_text() in ("SIGTERM", "the parent process is gone")
    if end == "supervisor killed too":
        os.kill(stray, signal.SIGKILL)
    else:
        assert supervisor.wait(DEADLINE) == 75
        assert not alive(stray)
    if end == "signal":
        os.close(hand)
    supervisor.stdout.close()
    wait_until(lambda: not is_locked(tmp_path / "lock"))


def test_what_takes_longer_to_save_than_it_may_is_killed(tmp_path):
    note = tmp_path / "note"
    supervisor, hand = start(tmp_path, [sys.executable, "-c", CHILD, str(note), "10"], grace=0.1)
    pids = [*map(int, supervisor.stdout.readline().split())]
    os.close(hand)
    assert supervisor.wait(DEADLINE) == 75
    supervisor.stdout.close()
    assert not any(map(alive, pids))
    assert not note.exists()
