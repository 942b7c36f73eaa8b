"""Threads beside the caller: one reads the next rows while another writes the last ones.

    ahead     read ─> read ─> read ...
    caller            check ─> check ─> check ...
    Behind                     encode, write ─> encode, write ...

Arrow and file operations release the interpreter lock, so one thread on either side keeps a second
core busy. Where every core already runs a process of its own, no threads are started (`in_turn`).
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
"""At most, for `side_by_side`: files that are hashed or waited for at the same time."""
WORTH_THREADS_SECONDS = 0.001
"""How long this thread works alone before others are started for the items that are left."""
MOST_WAITING = 2
"""Calls that may wait for the one in progress: this bounds memory."""
_in_turn: ContextVar[bool] = ContextVar("in_turn", default=False)


@contextmanager
def in_turn() -> Generator[None, None, None]:
    """Within it, and in this thread, `ahead` and `Behind` start no other threads. These would only
    compete for the same core, which cost a sixteenth of preparation's time."""
    token = _in_turn.set(True)
    try:
        yield
    finally:
        _in_turn.reset(token)


class Behind:
    """Makes calls, one after the other, in a thread of its own; after a call that failed, or after
    `stop`, the calls that are still queued are not made.

    A call's exception is raised from its own `put`, from a later `put`, or from `finish`.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._pool = None if _in_turn.get() else ThreadPoolExecutor(1, "behind")
        self._waiting: deque[Future[Any]] = deque()
        self._failed = False

    def __enter__(self) -> "Behind":
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            if failure[0] is None:
                self.finish()
        finally:
            self.stop()

    def put(self, call: Callable[..., Any], *args: Any) -> None:
        """Queues a call; waits while more than `most_waiting` calls are queued."""
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


def ahead(items: Iterable[T]) -> Generator[T]:
    """The items; a thread makes the next one while the caller works on the last. One item more is
    in memory."""
    if _in_turn.get():
        yield from items
        return
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1, "ahead") as pool:
        waiting: Future[Any] = pool.submit(next, iterator, end)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(next, iterator, end)
            yield item


def side_by_side(call: Callable[[S], T], items: Sequence[S], most: int = MOST_THREADS) -> list[T]:
    """The call's result for every item, in order, computed in this thread and others (`most`
    threads in all).

    For files that are hashed or waited for, which releases the interpreter lock. Each thread takes
    its next item by itself: to hand items over one by one costs more than hashing a small file.
    Other threads are only started where the items take a while.
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
