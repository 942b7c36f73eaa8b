"""Files are fsynced in a thread while the work goes on, and marked as done after their fsync.

    work        shard 0 ──────── shard 1 ──────── shard 2 ...
    behind it           fsync, fsync, mark        fsync, fsync, mark ...

An fsync takes some milliseconds, during which the next shard is computed. Fsyncs and marks go
through one queue, so a mark is only ever on the disk after the files that it vouches for.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from tasks.artifact.threads import Behind

MOST_WAITING = 32
"""Queued calls, enough for a few shards; beyond that the disk is too slow and is waited for."""
_behind: ContextVar[Behind | None] = ContextVar("lasting", default=None)


@contextmanager
def lasting_behind() -> Generator[None, None, None]:
    """Within it, and in this thread, `last` queues its calls for a thread that makes them. All of
    them are done at the end, even if the work failed, except those queued after a failed call.

    Raises:
        Exception: one of the calls failed.
    """
    with Behind(MOST_WAITING) as behind:
        token = _behind.set(behind)
        try:
            yield
        except BaseException:
            with suppress(Exception):  # what is done gets marked; the work's own failure is raised
                behind.finish()
            raise
        finally:
            _behind.reset(token)


def last(call: Callable[..., Any], *args: Any) -> None:
    """Makes the call after those before it: in the thread of `lasting_behind`, else right here."""
    behind = _behind.get()
    if behind is None:
        call(*args)
    else:
        behind.put(call, *args)
