"""The standard streams of a command: there from the start, and written to their end.

What stdout does not take is told once, with an exit code; left to Python's own exit it would be
`Exception ignored in ...` and 120, or a traceback, by how the stream happens to be buffered.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

STDOUT = 1
EXIT_UNWRITTEN = 1


def open_standard_streams() -> None:
    """Opens those that the caller has closed, on nothing: a file of ours in the place of one would
    get what a child prints."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:  # as Python itself found it
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != descriptor:
                os.dup2(nothing, descriptor)
                os.close(nothing)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


@contextmanager
def stdout_to_its_end() -> Generator[None, None, None]:
    """What is printed within has been written behind it.

    A reader that has gone (`| head -1`) ends the command without a word, anything else that stdout
    does not take (a full disk) in one sentence; both with exit code 1.
    """
    stdout, raw = sys.stdout, _Stdout(STDOUT, "w", closefd=False)
    sys.stdout = TextIOWrapper(
        BufferedWriter(raw),
        encoding=stdout.encoding,
        errors=stdout.errors,
        line_buffering=stdout.isatty(),
    )
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error is not raw.refused:
            raise
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, STDOUT)  # takes what is buffered still, as Python exits
        if not isinstance(error, BrokenPipeError):
            message = (
                f"stdout does not take the answer: {error.strerror}; what the command did stands"
            )
            print(message, file=sys.stderr)
        raise SystemExit(EXIT_UNWRITTEN) from None


class _Stdout(FileIO):
    """Remembers its refusal: an error of the work itself keeps its traceback."""

    refused: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.refused = error
            raise
