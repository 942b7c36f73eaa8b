"""Work that workers can import, and a program that is killed in the middle of it.

python -m tests.artifact.shard_work <directory>
"""

import ctypes
import errno
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tasks.artifact import Step, Store, Workspace, each, prefetch
from tasks.artifact.fsyncs import run_in_order


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


def mark(directory: Path, name: str) -> None:
    """Leaves the process id, whole."""
    temporary = directory / f".{name}"
    temporary.write_text(str(os.getpid()))
    temporary.replace(directory / name)


@dataclass(frozen=True)
class Meet:
    """Each of two items waits for the other: no single process can do both."""

    directory: Path

    def __call__(self, name: str) -> None:
        mark(self.directory, name)
        wait_for(self.directory / {"a": "b", "b": "a"}[name])


@dataclass(frozen=True)
class Note:
    """Leaves who did the item."""

    directory: Path

    def __call__(self, name: str) -> None:
        mark(self.directory, name)


@dataclass(frozen=True)
class NoteThreads:
    """Leaves whether anything is read ahead in another thread; each of two items waits for the
    other."""

    directory: Path

    def __call__(self, name: str) -> None:
        Meet(self.directory)(name)
        mine = threading.get_ident()
        [other] = prefetch(threading.get_ident() != mine for _ in range(1))
        (self.directory / f"{name}.ahead").write_text(str(other))


class NoCopy(Exception):
    """Cannot be made from its message alone."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


@dataclass(frozen=True)
class Elsewhere:
    """The parent waits with item 0 until the worker has come to its own, and does `what` there."""

    directory: Path
    parent: int
    what: str

    def __call__(self, number: int) -> None:
        if os.getpid() == self.parent:
            if number == 0:
                mark(self.directory, "begun")
                wait_for(self.directory / "worker")
            self._as_told(number)
            return
        wait_for(self.directory / "begun")
        mark(self.directory, "worker")
        if self.what == "raises":
            raise ValueError(f"item {number} is bad")
        if self.what == "raises what cannot be copied":
            raise NoCopy("first", "second")
        if self.what == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    def _as_told(self, number: int) -> None:
        if self.what == "parent is interrupted":
            raise KeyboardInterrupt
        if number == 0 and self.what.startswith("raises"):
            wait_for(self.directory / "told")
        mark(self.directory, f"done-{number}")


@dataclass(frozen=True)
class LastsNot:
    """Of two items the worker does one; what it wrote takes its time to last, or does not."""

    directory: Path
    parent: int
    fails: bool

    def __call__(self, name: str) -> None:
        mark(self.directory, name)
        other = {"a": "b", "b": "a", "c": "d", "d": "c"}[name]
        wait_for(self.directory / other)
        if os.getpid() != self.parent:
            run_in_order(self._lasts)

    def _lasts(self) -> None:
        time.sleep(0.2)
        if self.fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        mark(self.directory, "lasts")


@dataclass(frozen=True)
class Stuck:
    """One item of a build that stops for good in both processes; in the worker even its threads,
    until somebody opens the pipe."""

    workspace: Workspace
    directory: Path
    parent: int

    def __call__(self, name: str) -> None:
        mark(self.directory, name)
        if os.getpid() != self.parent:
            pipe = os.fsencode(self.directory / "pipe")
            ctypes.PyDLL(None).open(pipe, os.O_RDONLY)  # holds the interpreter's lock
        time.sleep(600)


def step(directory: Path, items: list[str]) -> Step:
    """Builds with two processes."""

    def build(workspace: Workspace) -> None:
        each(Stuck(workspace, directory, os.getpid()), items, 2, "stuck")
        (workspace.path / "out.txt").write_text("done")

    return Step("stuck", 1, "1_stuck", {}, {}, build)


if __name__ == "__main__":
    from tests.artifact.shard_work import step  # by the name under which a worker finds it

    where = Path(sys.argv[1])
    Store(where / "data").obtain(step(where, ["a", "b"]))
