"""The warden: starts the training child, and ends every process below it when it must end.

    python -m tasks.training.process.warden LEASH_FD LOCK_FD -- COMMAND...

It ends the tree when the leash breaks (the parent is gone, however it died), on SIGTERM or SIGINT,
and when the command itself ends. First the training processes get SIGTERM, so that they save; after
a grace every process below is killed, also those that left their session, because orphans become
the warden's children. To training processes it hands out the leash and the lock of the key, so that
the lock lives as long as anyone who may still write. Of the project it imports the errors alone.
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

CONNECTION = "REWARD_PIPELINE_WARDEN"
"""Environment variable with the path of the warden's socket."""
GRACE_SECONDS = 20.0
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.05


@dataclass
class Warden:
    """One guarded command."""

    leash: int
    lock: int
    command: list[str]
    savers: set[int] = field(default_factory=set[int])
    """Processes that save on SIGTERM: those that came for the lock."""

    def run(self) -> int:
        """Runs the command to its end, or ends it; returns the exit code to report."""
        become_subreaper()
        alarm, ring = os.pipe()
        os.set_blocking(ring, False)

        def ring_alarm(_number: int, _frame: FrameType | None) -> None:
            os.write(ring, b"!")

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, ring_alarm)
        with tempfile.TemporaryDirectory(prefix="warden-") as directory:
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
        """Leaves no process below this one."""
        below = descendants(os.getpid())
        send(signal.SIGTERM, (self.savers & below) or below)
        deadline = time.monotonic() + (GRACE_SECONDS if gracefully else 1.0)
        while time.monotonic() < deadline and self._alive(child):
            if self.savers and not self.savers & descendants(os.getpid()):
                send(signal.SIGTERM, descendants(os.getpid()))
            time.sleep(POLL_SECONDS)
        while self._alive(child):
            send(signal.SIGKILL, descendants(os.getpid()))
            time.sleep(POLL_SECONDS)

    def _alive(self, child: "subprocess.Popen[bytes]") -> bool:
        """Whether anything is left below, once the dead have been buried."""
        child.poll()
        for pid in descendants(os.getpid()) - {child.pid}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return bool(descendants(os.getpid()))


def leash_and_lock() -> list[int]:
    """A training process's end: descriptors of the leash and of the lock of the key, held from here
    on; none where no warden started the process.

    They come through a socket because the launchers in between close what they do not know. The
    lock is the warden's own open file: it stays locked until the last holder is gone.

    Raises:
        Interrupted: the warden is gone already, so nobody waits for this run.
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
        raise Interrupted(f"the warden of this training is gone ({error})") from error
    if len(descriptors) != 2:
        raise Interrupted("the warden of this training ended before it handed out its lock")
    return list(descriptors)


def become_subreaper() -> None:
    """Has orphans below this process become its children, where the kernel can do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> set[int]:
    """Every process below `root`, the dead that nobody has waited for included."""
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
    """Signals processes; those that are gone are gone."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


if __name__ == "__main__":
    leash, lock, _, *command = sys.argv[1:]
    sys.exit(Warden(int(leash), int(lock), command).run())
