"""Readers of binary formats in a process of their own: a crash there is an error here.

Some damaged files crash pyarrow, or make it loop. So a child process reads Parquet and Arrow files
and sends the rows; it may use `CPU_SECONDS` per batch and `MEMORY_BYTES` in all. A child that has
read a file serves the next one.

    request:  pickle of (format, path, name, codec, scratch)
    answers:  pickles of ("batch", Batch), ("advance", bytes), ("warn", text),
              ("declare", columns), then ("end", None) or ("error", exception)
"""

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tasks.artifact.memory import ARROWS_POOL, SYSTEM
from tasks.ingestion.formats.batches import Batch, Origin
from tasks.ingestion.formats.decompression import DamagedFile

CPU_SECONDS = 10
"""CPU time for one batch of at most 256 rows; waiting for a disk does not count."""
MEMORY_BYTES = 2 * 2**30
"""Data memory of the child: a damaged file may claim any size."""

COMMAND = ("-m", "tasks.ingestion.formats.child")

_idle: list["_Child"] = []


def isolated(format_: str, origin: Origin) -> Iterator[Batch]:
    """The batches of the format's reader, which runs in a child.

    Raises:
        DamagedFile: the file crashed the child. Errors of the reader are raised as they are.
    """
    child = _idle.pop() if _idle else _Child()
    calls = {"advance": origin.advance, "warn": origin.warn, "declare": origin.declare}
    is_reusable = False
    try:
        child.send((format_, origin.path, origin.name, origin.codec, origin.scratch))
        while True:
            kind, value = child.receive(origin)
            if kind == "batch":
                yield value
                continue
            is_reusable = kind in ("error", "end")
            if kind == "error":
                raise value
            if kind == "end":
                return
            calls[kind](value)
    finally:
        if is_reusable:
            _idle.append(child)
        else:
            child.end()


@atexit.register
def close_idle() -> None:
    """Ends the children that wait for a file."""
    while _idle:
        _idle.pop().end()


class _Child:
    """One process of `tasks.ingestion.formats.child`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # an interrupt from the terminal is the parent's to handle
            env={**os.environ, ARROWS_POOL: SYSTEM},  # reserves nothing
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, request: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # `receive` raises the cause
            pickle.dump(request, self.stdin)
            self.stdin.flush()

    def receive(self, origin: Origin) -> tuple[str, Any]:
        """The next answer.

        Raises:
            DamagedFile: the child was killed by a signal.
        """
        try:
            return pickle.load(self.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise self._death(origin, self.process.wait()) from None

    def _death(self, origin: Origin, code: int) -> Exception:
        if code >= 0:
            return RuntimeError(f"the reader of {origin.name} ended with exit code {code}")
        name = signal.Signals(-code).name
        cause = f"the library that reads it ended with {name}"
        if -code == signal.SIGXCPU:
            cause = f"reading took more than {CPU_SECONDS} s of computing for one batch of rows"
        return DamagedFile(
            f"{origin.name}: {cause}; the file is damaged: fetch or write the file again"
        )

    def end(self) -> None:
        self.process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()
        self.process.wait()
