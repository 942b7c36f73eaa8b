"""Work beside the caller's: the next rows are read, and the last ones written, meanwhile.

    ahead     read ─> read ─> read ...
    caller            check ─> check ─> check ...
    Behind                     encode, write ─> encode, write ...

Arrow and disks do not hold the interpreter, so one thread on either side is enough where a second
core is free. Where every core has a process of its own, none is (`in_turn`).
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
"""Of files that are read, or waited for, side by side."""
WORTH_THREADS_SECONDS = 0.001
"""Of work in this thread, before others are started for what is left."""
MOST_WAITING = 2
"""Calls that may wait behind the one in progress: what bounds memory."""
_in_turn: ContextVar[bool] = ContextVar("in_turn", default=False)


@contextmanager
def in_turn() -> Generator[None, None, None]:
    """Within, in this thread, `ahead` and `Behind` leave nothing to other threads: these would only
    take turns with it, which took a sixteenth of preparation's time."""
    token = _in_turn.set(True)
    try:
        yield
    finally:
        _in_turn.reset(token)


class Behind:
    """Makes calls in their order in a thread of its own, until `stop`, or one of them fails: then
    none of those behind it is made.

    A call's failure is raised by its own `put`, a later one, or `finish`.
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
        """Makes the call once those before it are done."""
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
        """Returns when all calls are done."""
        while self._waiting:
            self._waiting.popleft().result()

    def stop(self) -> None:
        """Waits for the call in progress; those that wait are not made."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def ahead(items: Iterable[T]) -> Generator[T]:
    """The items; while one is worked on, the next one is made in a thread. Memory: one more."""
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
    """What the call gives for every item, in order; some at a time, here and in other threads
    (`most` of them in all).

    For files that are hashed, or waited for: neither holds the interpreter. A thread goes from one
    item to the next by itself, since handing them over one by one costs more than a small file;
    and of files that are done in no time, all are done here.
    """
    left = iter(enumerate(items))  # each of its items goes to one thread alone
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
