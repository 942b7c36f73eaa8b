"""How much work and how much text one row may cost a template.

Work is measured as processor time, not as time on the clock, so that a busy machine changes
nothing. It can be limited in a process's main thread only; in other threads only the length of the
text is.
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
"""A rendering may have so many characters, plus LENGTH_FACTOR times those of the row."""
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
