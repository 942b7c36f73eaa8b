"""A refusal that reaches its client, though that is still sending.

A connection that is closed over bytes that nobody has read is reset. Most clients then tell of the
reset and never read the answer: of a missing token or a body that is too large they learn nothing.
So what is still to come is read first, and thrown away.
"""

import asyncio
from contextlib import suppress

from starlette.types import Message, Receive, Send

from tasks.registration.serving.problems import RequestProblem

DISCARD_SECONDS = 10.0
"""A client that does not come to its end by then is answered all the same."""


class Incoming:
    """What a client sends. `waits`: it asked to be told (100 Continue) before it sends its body."""

    def __init__(self, receive: Receive, *, waits: bool) -> None:
        self.receive, self.waits = receive, waits
        self.ended = False

    async def __call__(self) -> Message:
        """The next message; of a client that waits, the first one asks for its body."""
        self.waits = False
        message = await self.receive()
        self.ended = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    async def discard(self, most: int) -> None:
        """Reads what is still to come, `most` bytes of it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while not (self.ended or self.waits) and most > 0:
                    most -= len((await self()).get("body", b""))


async def refuse(problem: RequestProblem, incoming: Incoming, send: Send, most: int) -> None:
    """Answers with the problem, and closes the connection; at most `most` bytes are discarded."""
    await incoming.discard(most)
    headers = {"content-type": "application/json", "connection": "close", **problem.headers}
    raw = [(k.encode(), v.encode()) for k, v in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": problem.body()})
