"""Error responses that reach the client even if it is still sending its request body.

TCP resets a connection that is closed while received bytes are unread, and most clients then report
"connection reset" instead of the response ("no token", "too large"). So the rest of the body is
read and discarded before the error is sent.
"""

import asyncio
from contextlib import suppress

from starlette.types import Message, Receive, Send

from tasks.registration.serving.problems import RequestProblem

DISCARD_SECONDS = 10.0
"""For reading the rest of a body; then the error is sent anyway."""


class Incoming:
    """ASGI `receive` that knows whether the request's body has ended.

    `waits`: the client sends its body only once it is asked to ("Expect: 100-continue").
    """

    def __init__(self, receive: Receive, *, waits: bool) -> None:
        self.receive, self.waits = receive, waits
        self.ended = False

    async def __call__(self) -> Message:
        """The next ASGI message. The server sends "100 Continue" at the first call, if awaited."""
        self.waits = False
        message = await self.receive()
        self.ended = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    async def discard(self, most: int) -> None:
        """Reads the rest of the body, at most about `most` bytes of it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while not (self.ended or self.waits) and most > 0:
                    most -= len((await self()).get("body", b""))


async def refuse(problem: RequestProblem, incoming: Incoming, send: Send, most: int) -> None:
    """Sends the problem as the response and closes the connection, after discarding at most about
    `most` bytes of the body."""
    await incoming.discard(most)
    headers = {"content-type": "application/json", "connection": "close", **problem.headers}
    raw = [(k.encode(), v.encode()) for k, v in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": problem.body()})
