"""The supervisor process: starts the training command, and leaves no process of it behind.

    python -m tasks.training.process.supervisor LEASH_FD LOCK_FD GRACE_SECONDS -- COMMAND...

    pipeline (parent) ── supervisor ── COMMAND ── training processes

The *leash* is a pipe whose write end the parent holds: it closes when the parent dies, however. The
*lock* is the open file that locks the artifact's key. The supervisor ends all processes below it
when the leash closes, on SIGTERM, SIGINT or SIGHUP, and when the command ends: training processes
get SIGTERM, so that they save a checkpoint; what is left after the grace is killed. Orphans
become the supervisor's children (a "subreaper" in Linux), so none escapes. Training processes ask
it for leash and lock (`leash_and_lock`), so the key stays locked while any of them may still write.
Of the project it imports only the errors, so that it starts fast.
"""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tasks.errors import EXIT_INTERRUPTED, Interrupted

CONNECTION = "REWARD_PIPELINE_SUPERVISOR"
"""Environment variable with the path of the supervisor's socket."""
PR_SET_CHILD_SUBREAPER = 36
"""See prctl(2)."""
POLL_SECONDS = 0.05


@dataclass
class Supervisor:
    """One supervised command."""

    leash: int
    """File descriptor of the pipe's read end."""
    lock: int
    """File descriptor of the locked file."""
    grace: float
    """Seconds from SIGTERM to SIGKILL."""
    command: list[str]
    savers: set[int] = field(default_factory=set[int])
    """Ids of the training processes (those that asked for the lock), which save on SIGTERM."""

    def run(self) -> int:
        """Runs the command until it ends or has to be ended; returns the exit code: its own,
        128 + N if signal N killed it, EXIT_INTERRUPTED if it was ended."""
        become_subreaper()
        alarm, ring = os.pipe()
        os.set_blocking(ring, False)

        def ring_alarm(_number: int, _frame: FrameType | None) -> None:
            os.write(ring, b"!")

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, ring_alarm)
        with tempfile.TemporaryDirectory(prefix="supervisor-") as directory:
            place = str(Path(directory) / "socket")
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
                server.bind(place)
                server.listen()
                child = subprocess.Popen(self.command, env={**os.environ, CONNECTION: place})
                ended = self._wait(child, server, alarm)
                self._end_all(child, gracefully=not ended)
        if not ended:
            return EXIT_INTERRUPTED
        return child.returncode if child.returncode >= 0 else 128 - child.returncode

    def _wait(self, child: "subprocess.Popen[bytes]", server: socket.socket, alarm: int) -> bool:
        """True when the command has ended by itself, False when it has to be ended."""
        done = os.pidfd_open(child.pid)
        poll = select.poll()
        for descriptor in (self.leash, done, alarm, server.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if done in ready:
                child.wait()
                return True
            if self.leash in ready or alarm in ready:
                return False
            if server.fileno() in ready:
                self._hand_out(server)

    def _hand_out(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.settimeout(5)
            self.savers.add(int.from_bytes(connection.recv(8), "big"))
            socket.send_fds(connection, [b"!"], [self.leash, self.lock])

    def _end_all(self, child: "subprocess.Popen[bytes]", *, gracefully: bool) -> None:
        """Ends every process below this one; `gracefully` gives them the grace, else 1 s."""
        below = descendants(os.getpid())
        send(signal.SIGTERM, (self.savers & below) or below)
        deadline = time.monotonic() + (self.grace if gracefully else 1.0)
        while time.monotonic() < deadline and self._alive(child):
            if self.savers and not self.savers & descendants(os.getpid()):
                send(signal.SIGTERM, descendants(os.getpid()))
            time.sleep(POLL_SECONDS)
        while self._alive(child):
            send(signal.SIGKILL, descendants(os.getpid()))
            time.sleep(POLL_SECONDS)

    def _alive(self, child: "subprocess.Popen[bytes]") -> bool:
        """Whether any process is left below; zombies are reaped first."""
        child.poll()
        for pid in descendants(os.getpid()) - {child.pid}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return bool(descendants(os.getpid()))


def leash_and_lock() -> list[int]:
    """For a training process: file descriptors of leash and lock, asked from the supervisor; empty
    where none started this process.

    They come through a socket because accelerate's launcher closes inherited descriptors. The lock
    is the same open file as the supervisor's, so it stays locked until the last holder is gone.

    Raises:
        Interrupted: the supervisor is gone already, so nobody waits for this run.
    """
    place = os.environ.get(CONNECTION)
    if not place:
        return []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(place)
            connection.sendall(os.getpid().to_bytes(8, "big"))
            _, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
    except OSError as error:
        raise Interrupted(f"the supervisor of this training is gone ({error})") from error
    if len(descriptors) != 2:
        raise Interrupted("the supervisor of this training ended before it handed out its lock")
    return list(descriptors)


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process, on Linux (`PR_SET_CHILD_SUBREAPER`)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> set[int]:
    """Ids of all processes below `root`, from /proc; zombies included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                status = (entry / "stat").read_text()
                parent = int(status[status.rindex(")") + 1 :].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def send(number: signal.Signals, pids: set[int]) -> None:
    """Sends the signal to each process that still exists."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


if __name__ == "__main__":
    leash, lock, grace, _, *command = sys.argv[1:]
    sys.exit(Supervisor(int(leash), int(lock), float(grace), command).run())
