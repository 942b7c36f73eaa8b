"""Reading ahead and writing behind: the next batch is read, and the last one written, while this
one is worked on.

Compressing and decompressing let other threads run, so they cost no time of their own where a
second core is free. Memory: one batch more on either side.
"""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def ahead(items: Iterable[T]) -> Generator[T]:
    """The items; while one is worked on, the next one is made in a thread."""
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[Any] = pool.submit(next, iterator, end)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(next, iterator, end)
            yield item


@contextmanager
def behind(work: Callable[[T], Any]) -> Generator[Callable[[T], None]]:
    """`work`, done in a thread, in order; a call waits until the one before it is done.

    What a call raises, the next one raises, or else the end of the block.
    """
    with ThreadPoolExecutor(1) as pool:
        waiting: list[Future[Any]] = []

        def later(item: T) -> None:
            while waiting:
                waiting.pop().result()
            waiting.append(pool.submit(work, item))

        yield later
        while waiting:
            waiting.pop().result()
