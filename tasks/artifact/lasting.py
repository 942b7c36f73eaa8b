"""Files are made to last behind the work that writes them, and marks are set once they do.

    work        shard 0 ──────── shard 1 ──────── shard 2 ...
    behind it           fsync, fsync, mark        fsync, fsync, mark ...

A disk takes some milliseconds for a file, in which the next shard is at work. Whoever sees a mark
finds the files that it speaks of, whatever died in between: both go through one queue.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from tasks.artifact.beside import Behind

MOST_WAITING = 32
"""Calls for a few shards: with more of them the disk is too slow, and has to be waited for."""
_behind: ContextVar[Behind | None] = ContextVar("lasting", default=None)


@contextmanager
def lasting_behind() -> Generator[None, None, None]:
    """Within, in this thread, calls to `last` are made behind it; at the end all of them are done,
    whatever happened, but for those behind one that failed.

    Raises:
        Exception: one of them failed.
    """
    with Behind(MOST_WAITING) as behind:
        token = _behind.set(behind)
        try:
            yield
        except BaseException:
            with suppress(Exception):  # what is done is marked; the work's own failure is told
                behind.finish()
            raise
        finally:
            _behind.reset(token)


def last(call: Callable[..., Any], *args: Any) -> None:
    """Makes the call once those before it are done: within `lasting_behind` behind the caller."""
    behind = _behind.get()
    if behind is None:
        call(*args)
    else:
        behind.put(call, *args)
