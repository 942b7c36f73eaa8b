"""Files are fsynced in a thread while the work goes on, and marked as done after their fsync.

    work          shard 0 ──────── shard 1 ──────── shard 2 ...
    background            fsync, fsync, mark        fsync, fsync, mark ...

An fsync takes some milliseconds, in which the next shard is computed. A mark is the file that says
that a shard is done. Fsyncs and marks go through one queue, so a mark is only on the disk after the
files that it vouches for.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from tasks.artifact.threads import BackgroundCalls

MOST_WAITING = 32
"""Queued calls, enough for a few shards; beyond that the disk is too slow and is waited for."""
_calls: ContextVar[BackgroundCalls | None] = ContextVar("fsyncs", default=None)


@contextmanager
def fsyncs_in_background() -> Generator[None, None, None]:
    """Inside, `run_in_order` in this thread queues its calls for a background thread. Leaving waits
    until all are done, even if the work failed, except those queued after a failed call.

    Raises:
        Exception: one of the calls failed.
    """
    with BackgroundCalls(MOST_WAITING) as calls:
        token = _calls.set(calls)
        try:
            yield
        except BaseException:
            with suppress(Exception):  # what is done gets marked; the work's own failure is raised
                calls.finish()
            raise
        finally:
            _calls.reset(token)


def run_in_order(call: Callable[..., Any], *args: Any) -> None:
    """Makes the call after all earlier ones; inside `fsyncs_in_background` in the other thread."""
    calls = _calls.get()
    if calls is None:
        call(*args)
    else:
        calls.put(call, *args)
