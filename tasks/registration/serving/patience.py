"""How long a request's body is waited for: while it comes, and no longer once the server stops.

A client that stalls amid its body would hold its place in the line, and a server that stops until
the grace is over.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from tasks.registration.serving.problems import RequestProblem

BODY_SECONDS = 30.0
"""Without another byte of its body, a client is answered."""
STOPPING_SECONDS = 1.0
"""Bodies that have begun have this long to come once the server is told to stop."""
STALLED = "stalled"
"""The reason of a refusal for which nothing more of a body is waited for."""


class Patience:
    """The bodies that are coming."""

    def __init__(self) -> None:
        self.stopping = False
        self._coming: set[asyncio.Timeout] = set()

    def stop(self) -> None:
        """Has bodies that do not come soon given up: the server stops."""
        self.stopping = True
        for left in self._coming:
            _extend(left, STOPPING_SECONDS)

    @asynccontextmanager
    async def waiting(self) -> AsyncGenerator[Callable[[], None], None]:
        """While a body is read; what this gives is called for every part of it.

        Raises:
            RequestProblem: the rest does not come.
        """
        try:
            async with asyncio.timeout(STOPPING_SECONDS if self.stopping else BODY_SECONDS) as left:
                self._coming.add(left)
                try:
                    yield lambda: None if self.stopping else _extend(left, BODY_SECONDS)
                finally:
                    self._coming.discard(left)
        except TimeoutError:
            why = "the server stops" if self.stopping else f"none of it came for {BODY_SECONDS:g} s"
            said = f"the body is not here in full, and {why}; send the request again"
            raise RequestProblem(503 if self.stopping else 408, STALLED, said) from None


def _extend(left: asyncio.Timeout, seconds: float) -> None:
    if not left.expired():
        left.reschedule(asyncio.get_running_loop().time() + seconds)
