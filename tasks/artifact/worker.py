"""A worker process, `python -P -m tasks.artifact.worker <descriptor>`: what `pool` starts.

    parent                                worker
                                    <──   None: it has started
    ("work", directory, function)   ──>   imports what the function is made of
                                    <──   None, or why it cannot
    ("item", item)                  ──>   calls the function, holding the locks that came along
                                    <──   None, or the exception
    ("rest", )                      ──>   sees to it that what was written lasts
                                    <──   None, or the exception
                                          forgets the function, gives memory back

It ends when its parent does, however that dies and whatever is being done: a thread waits for the
other end of the socket to close. It holds the locks of the work until then, so that no later run
begins beside a worker that may still write.
"""

import gc
import os
import pickle
import select
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from tasks.artifact.fsyncs import fsyncs_in_background
from tasks.artifact.memory import give_memory_back
from tasks.artifact.messages import receive, send
from tasks.errors import ArtifactError

Work = Callable[[Any], Any]


def main() -> None:
    """Serves one request after the other, until the parent is gone."""
    os.dup2(2, 1)  # what a library prints is no answer of the parent's
    sys.meta_path.insert(0, WithoutPandas)
    channel = socket.socket(fileno=int(sys.argv[1]))
    threading.Thread(target=_end_with_parent, args=(channel,), daemon=True).start()
    send(channel, None)
    work: Work | None = None
    written, held = ExitStack(), list[int]()
    while True:
        try:
            (kind, content), locks = receive(channel)
        except (EOFError, OSError):
            return
        if kind == "work":
            work, failure = _read(content)
            if work is not None:
                written.enter_context(fsyncs_in_background())
            send(channel, failure)
        elif kind == "item":
            _close(held)
            held = locks
            send(channel, _failure(partial(_do, work, content)))
        else:
            failure = _failure(written.close)
            _close(held)  # before the answer, after which the parent lets go of its own
            held = []
            send(channel, failure)
            work = None
            gc.collect()
            give_memory_back()


def _close(locks: Sequence[int]) -> None:
    for lock in locks:
        os.close(lock)


class WithoutPandas:
    """Finds no pandas: pyarrow would import it at its first array, only to ask whether the values
    are a frame's, and that takes as long as all else that a worker imports (0.2 s, 30 MB)."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Leaves every other module to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError("a worker process goes without pandas", name=name)


def _read(content: bytes) -> tuple[Work | None, ArtifactError | None]:
    try:
        directory, work = pickle.loads(content)
        os.chdir(directory)
        return work, None
    except Exception as error:
        return None, ArtifactError(
            f"a worker process cannot do the work ({type(error).__name__}: {error}); it has to be "
            "made of functions and classes of modules; or use one worker"
        )


def _do(work: Work | None, content: bytes) -> None:
    assert work is not None, "work comes before its items"
    work(pickle.loads(content))


def _failure(call: Callable[[], object]) -> Exception | None:
    """What the call raised; made such that it can be pickled."""
    try:
        call()
    except Exception as error:
        place = "".join(traceback.format_tb(error.__traceback__))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RuntimeError(f"{type(error).__name__}: {error}")
        error.add_note(f"in a worker process:\n{place}")
        return error
    return None


def _end_with_parent(channel: socket.socket) -> None:
    poll = select.poll()
    poll.register(channel, 0)  # tells of the other end's close alone
    poll.poll()
    os._exit(1)


if __name__ == "__main__":
    main()
