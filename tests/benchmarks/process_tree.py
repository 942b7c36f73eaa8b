"""Memory of this process and of all that it has started, and where preparation's seconds go."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")


def tree_rss() -> int:
    """Bytes of memory that this process and its descendants hold now, without pages of files.

    A child that is about to become another program still has its parent's memory and command
    line: it is left out.
    """
    total, waiting = 0, [os.getpid()]
    mine = Path("/proc/self/cmdline").read_bytes()
    while waiting:
        pid = waiting.pop()
        process = Path(f"/proc/{pid}")
        try:
            if pid != os.getpid() and (process / "cmdline").read_bytes() == mine:
                continue
            _, resident, shared, *_ = (process / "statm").read_text().split()
            total += (int(resident) - int(shared)) * PAGE
            for task in (process / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
    return total


class PeakTreeMemory:
    """Most bytes held by the processes while the block ran, looked at fifty times a second."""

    def __enter__(self) -> "PeakTreeMemory":
        self.before = self.peak = tree_rss()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.peak = max(self.peak, tree_rss())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, tree_rss())


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
