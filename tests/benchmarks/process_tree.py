"""Memory of this process and of all that it has started, and where preparation's seconds go."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")


def tree() -> list[int]:
    """The process ids of this process and its descendants.

    A child that is about to become another program still has its parent's memory and command
    line: it is left out.
    """
    found, waiting = list[int](), [os.getpid()]
    mine = Path("/proc/self/cmdline").read_bytes()
    while waiting:
        pid = waiting.pop()
        process = Path(f"/proc/{pid}")
        try:
            if pid != os.getpid() and (process / "cmdline").read_bytes() == mine:
                continue
            found.append(pid)
            for task in (process / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
    return found


def rss(pids: Iterable[int]) -> int:
    """Bytes of memory that these processes hold now, without pages of files."""
    total = 0
    for pid in pids:
        try:
            _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += (int(resident) - int(shared)) * PAGE
    return total


class PeakTreeMemory:
    """Most bytes held by this process and its descendants while the block ran.

    Looked at fifty times a second; for new processes five times, which takes ten times as long: all
    of it is time of the process that is watched.
    """

    def __enter__(self) -> "PeakTreeMemory":
        self.before = self.peak = rss(tree())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        for look in count():
            if look % 10 == 0:
                pids = tree()
            self.peak = max(self.peak, rss(pids))
            if self._stop.wait(0.02):
                return

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, rss(tree()))


def timed(
    stages: Iterator[tuple[str, Any]], clock: Callable[[], float] = time.perf_counter
) -> tuple[dict[str, Any], dict[str, float]]:
    """Each stage's artifact, and the seconds that it took."""
    done: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    last = clock()
    for name, artifact in stages:
        now = clock()
        done[name], seconds[name], last = artifact, round(now - last, 3), now
    return done, seconds
