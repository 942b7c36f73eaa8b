"""How much work and how much text one row may cost a template.

The work is processor time, not time on the wall: a busy machine changes nothing. It can be
watched in a process's main thread only; elsewhere just the text's length is limited.
"""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

CPU_SECONDS = 10.0
"""A thousand times what the slowest template known takes for a long conversation."""
LENGTH_FACTOR = 20
LENGTH_ALLOWANCE = 200_000
"""A rendering may have as many characters, and LENGTH_FACTOR times those of the row more."""
MOST_TIMEOUTS = 3
"""Rows over a limit before the run fails: each may cost CPU_SECONDS."""


class OverLimit(Exception):
    """Rendering took more processor time than it may."""


@contextmanager
def cpu_limit(seconds: float) -> Generator[None]:
    """Raises OverLimit in the body once it has used so many seconds of processor time."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise OverLimit(f"took more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
