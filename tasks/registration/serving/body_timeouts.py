"""How long the server waits for a request's body: while it keeps arriving, and only briefly once
the server is stopping.

A client that stalls in the middle of its body would otherwise hold its place in the queue, and keep
a server that is stopping alive until the grace period is over.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from tasks.registration.serving.problems import RequestProblem

BODY_SECONDS = 30.0
"""Longest wait for the next part of a body."""
STOPPING_SECONDS = 1.0
"""The same once the server has been told to stop."""
STALLED = "stalled"
"""Reason of a refusal after which the rest of the body is not awaited."""


class BodyTimeouts:
    """The timeouts of all request bodies that are being received."""

    def __init__(self) -> None:
        self.stopping = False
        self._timeouts: set[asyncio.Timeout] = set()

    def stop(self) -> None:
        """Shortens all timeouts: the server is stopping."""
        self.stopping = True
        for timeout in self._timeouts:
            _extend(timeout, STOPPING_SECONDS)

    @asynccontextmanager
    async def waiting(self) -> AsyncGenerator[Callable[[], None], None]:
        """While a body is read; the yielded function is to be called for every part of it.

        Raises:
            RequestProblem: the rest of the body did not arrive in time.
        """
        try:
            seconds = STOPPING_SECONDS if self.stopping else BODY_SECONDS
            async with asyncio.timeout(seconds) as timeout:
                self._timeouts.add(timeout)
                try:
                    yield lambda: None if self.stopping else _extend(timeout, BODY_SECONDS)
                finally:
                    self._timeouts.discard(timeout)
        except TimeoutError:
            why = "the server stops" if self.stopping else f"none of it came for {BODY_SECONDS:g} s"
            message = f"the body is not here in full, and {why}; send the request again"
            raise RequestProblem(503 if self.stopping else 408, STALLED, message) from None


def _extend(timeout: asyncio.Timeout, seconds: float) -> None:
    if not timeout.expired():
        timeout.reschedule(asyncio.get_running_loop().time() + seconds)
