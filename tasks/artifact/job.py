"""One call of `each`: the items that nobody has taken yet, and what became of the others.

items    c d e ...        this process and its workers take one whenever they are free
running  a b              done, or failed: then no item is given out any more
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Job:
    """What those who share the items have in common."""

    title: str
    processes: int
    items: deque[Any]
    work: bytes
    """The function that is called for every item, pickled with the directory that paths start
    from."""
    locks: Sequence[int]
    """Descriptors that are held wherever an item is worked on."""
    advance: Callable[[], object]
    failure: BaseException | None = None
    running: int = 0
    """Items that are worked on, and who helps."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def taken(self) -> Iterator[Any]:
        """The items: each goes to one taker alone, and none any more after a failure."""
        while True:
            with self.changed:
                if self.failure or not self.items:
                    return
                self.running += 1
                item = self.items.popleft()
            yield item

    def finish(self, failure: BaseException | None = None) -> None:
        """One of those taken is done, or has failed."""
        with self.changed:
            self.running -= 1
            if failure is None:
                self.advance()
                self.changed.notify_all()
            else:
                self.fail(failure)

    @contextmanager
    def helped(self) -> Generator[None, None, None]:
        """Within, somebody has to be waited for, whether at an item or not."""
        with self.changed:
            self.running += 1
        try:
            yield
        finally:
            with self.changed:
                self.running -= 1
                self.changed.notify_all()

    def fail(self, failure: BaseException) -> None:
        """No item is given out any more."""
        with self.changed:
            self.failure = self.failure or failure
            self.changed.notify_all()

    def wait(self) -> None:
        """Returns when all that were taken are done; raises the first failure."""
        with self.changed:
            while self.running and not self.failure:
                self.changed.wait()
        if self.failure:
            raise self.failure
