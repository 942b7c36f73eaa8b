"""The queue of one call of `each`: items that are left, items in progress, and the first failure.

items    c d e ...        this process and its workers take the next one when they are free
running  a b              in progress; after a failure no further item is given out
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Job:
    """State that the threads of one call of `each` share."""

    title: str
    processes: int
    items: deque[Any]
    work: bytes
    """The function that is called for every item, pickled with the directory that paths start
    from."""
    locks: Sequence[int]
    """Descriptors of locks that every process holds while it works on an item."""
    advance: Callable[[], object]
    failure: BaseException | None = None
    running: int = 0
    """Items in progress, and workers that take part."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def taken(self) -> Iterator[Any]:
        """Takes item after item from the queue, each for one caller only; stops after a failure."""
        while True:
            with self.changed:
                if self.failure or not self.items:
                    return
                self.running += 1
                item = self.items.popleft()
            yield item

    def finish(self, failure: BaseException | None = None) -> None:
        """Notes that an item that was taken is done, or has failed."""
        with self.changed:
            self.running -= 1
            if failure is None:
                self.advance()
                self.changed.notify_all()
            else:
                self.fail(failure)

    @contextmanager
    def helped(self) -> Generator[None, None, None]:
        """Inside, `wait` also waits for this thread, even between two items."""
        with self.changed:
            self.running += 1
        try:
            yield
        finally:
            with self.changed:
                self.running -= 1
                self.changed.notify_all()

    def fail(self, failure: BaseException) -> None:
        """Notes a failure; no item is given out after it."""
        with self.changed:
            self.failure = self.failure or failure
            self.changed.notify_all()

    def wait(self) -> None:
        """Waits until all items that were taken are done; raises the first failure."""
        with self.changed:
            while self.running and not self.failure:
                self.changed.wait()
        if self.failure:
            raise self.failure
