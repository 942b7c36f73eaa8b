"""A request to stop the training, by SIGTERM, SIGINT or a closed leash.

The leash is a pipe whose write end the parent process holds, so it closes when the parent dies,
however. The training loop checks for the request after each step (`callbacks.py`); before there is
any work to lose, the process ends at once. Importing this imports no torch.
"""

import os
import select
import signal
import threading
from types import FrameType

from tasks.errors import EXIT_INTERRUPTED


class StopRequest:
    """Whether, and why, this process was asked to stop. A second request changes nothing."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.saves = False
        """Whether a loop runs that looks here after each step; else a request ends at once."""

    def ask(self, reason: str) -> None:
        """Asks for the stop."""
        self.reason = self.reason or reason

    def on_signals(self) -> None:
        """Takes SIGTERM and SIGINT as requests."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def on_broken_leash(self, leash: int) -> None:
        """Takes the end of the pipe `leash` as a request."""
        threading.Thread(target=self._watch, args=(leash,), daemon=True, name="leash").start()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.ask(signal.Signals(number).name)
        if not self.saves:
            os._exit(EXIT_INTERRUPTED)  # nothing has been done since the last checkpoint

    def _watch(self, leash: int) -> None:
        poll = select.poll()
        poll.register(leash, select.POLLIN | select.POLLHUP)
        poll.poll()
        silence()
        self.ask("the parent process is gone")
        if not self.saves:
            os._exit(EXIT_INTERRUPTED)


def silence() -> None:
    """Points standard output and error nowhere: their reader is gone, and a write would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
