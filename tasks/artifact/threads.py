"""Threads beside the caller: one reads the next rows while another writes the last ones.

    prefetch          read ─> read ─> read ...
    caller                    check ─> check ─> check ...
    BackgroundCalls                    encode, write ─> encode, write ...

Arrow and file operations release the interpreter lock, so one thread on either side keeps a second
core busy. Where every core already runs a process of its own, no threads are started
(`without_threads`).
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")

MOST_THREADS = 8
"""For `threaded_map`: how many files are hashed or waited for at the same time."""
WORTH_THREADS_SECONDS = 0.001
"""For `threaded_map`: how long the caller's thread works alone before others are started."""
MOST_WAITING = 2
"""For `BackgroundCalls`: how many calls may be queued behind the running one. Bounds memory."""
_without_threads: ContextVar[bool] = ContextVar("without_threads", default=False)


@contextmanager
def without_threads() -> Generator[None, None, None]:
    """Inside, `prefetch` and `BackgroundCalls` of this thread start no other threads, which would
    only compete for the same core (that cost a sixteenth of preparation's time)."""
    token = _without_threads.set(True)
    try:
        yield
    finally:
        _without_threads.reset(token)


class BackgroundCalls:
    """A queue of calls that one background thread makes in order. After a failed call, or `stop`,
    those still queued are dropped.

    A call's exception is raised by its own `put`, a later `put`, or `finish`.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._pool = None if _without_threads.get() else ThreadPoolExecutor(1, "behind")
        self._waiting: deque[Future[Any]] = deque()
        self._failed = False

    def __enter__(self) -> "BackgroundCalls":
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            if failure[0] is None:
                self.finish()
        finally:
            self.stop()

    def put(self, call: Callable[..., Any], *args: Any) -> None:
        """Queues a call; blocks while more than `most_waiting` are queued."""
        if self._pool is None:
            self._make(call, *args)
            return
        self._waiting.append(self._pool.submit(self._make, call, *args))
        left = self._waiting
        while left and (len(left) > self._most_waiting or left[0].done()):
            left.popleft().result()

    def _make(self, call: Callable[..., Any], *args: Any) -> None:
        if self._failed:
            return
        try:
            call(*args)
        except BaseException:
            self._failed = True
            raise

    def finish(self) -> None:
        """Waits until all calls are done."""
        while self._waiting:
            self._waiting.popleft().result()

    def stop(self) -> None:
        """Waits for the call in progress, and drops those that are queued."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def prefetch(items: Iterable[T]) -> Generator[T]:
    """The items; a thread makes the next one while the caller works on this one, so two items are
    in memory."""
    if _without_threads.get():
        yield from items
        return
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1, "prefetch") as pool:
        waiting: Future[Any] = pool.submit(next, iterator, end)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(next, iterator, end)
            yield item


def threaded_map(call: Callable[[S], T], items: Sequence[S], most: int = MOST_THREADS) -> list[T]:
    """`[call(item) for item in items]`, in this thread and others (`most` threads in all).

    For hashing or waiting for files, which releases the interpreter lock. Other threads are only
    started if the items take a while. Each thread takes its next item itself: a pool that hands
    items out one by one costs more than hashing a small file.
    """
    left = iter(enumerate(items))  # shared: each of its items goes to one thread
    found: dict[int, T] = {}
    begun = time.perf_counter()
    for place, item in left:
        found[place] = call(item)
        if time.perf_counter() - begun > WORTH_THREADS_SECONDS:
            break

    def some() -> None:
        with _ends_where_it_fails(left):
            for place, item in left:
                found[place] = call(item)

    threads = min(most - 1, len(items) - len(found))
    with ThreadPoolExecutor(max(1, threads), "side") as pool, _ends_where_it_fails(left):
        waiting = [pool.submit(some) for _ in range(threads)]
        some()
        for each in waiting:
            each.result()
    return [found[place] for place in range(len(items))]


@contextmanager
def _ends_where_it_fails(left: Iterator[object]) -> Generator[None, None, None]:
    try:
        yield
    except BaseException:
        deque(left, maxlen=0)  # nobody begins with another item
        raise
