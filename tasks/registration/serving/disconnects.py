"""A request is cancelled when its client disconnects before the answer.

A trainer whose request timed out asks again. If the first request were still scored to its end, a
server that is slow already would fall further behind with every retry; so whatever of it still
waits is taken out of the queue.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tasks.registration.serving.problems import RequestProblem


async def answered(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Has the application answer a request whose body was read already.

    Raises:
        RequestProblem: the client left first; the application was cancelled.
    """
    answering = asyncio.ensure_future(app(scope, _replaying(body), send))
    leaving = asyncio.ensure_future(_left(receive))
    both = (answering, leaving)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise RequestProblem(400, "gone", "the client left before its request was answered")
        answering.result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _replaying(body: bytes) -> Receive:
    """The application's `receive`: the body once, and then nothing for as long as it runs."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await asyncio.Future()

    return replayed
