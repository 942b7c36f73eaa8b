"""Memory that is not in use goes back to the system: libraries keep it for their next call."""

import ctypes
import resource
import sys
from contextlib import suppress
from pathlib import Path

WORTH_BYTES = 128 * 2**20
"""By which the process has grown since it last gave memory back: less serves the next stage, which
would have to ask the system for it page by page."""
_left = 0
"""Bytes that the process had when it last did."""


def give_memory_back() -> None:
    """Hands back what Arrow's pool and the C library hold, but do not use.

    Between stages that is most of what a process has, and the next stage in it, or another process
    beside it, needs other memory. Takes a millisecond or a few; nothing where there is little.
    """
    global _left
    if 0 < _resident() < _left + WORTH_BYTES:
        return
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    _left = _resident()


def _resident() -> int:
    """Bytes in memory that are the process's own, not a file's that it has mapped; 0 where the
    system does not tell (only Linux)."""
    with suppress(OSError):
        _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
        return (int(resident) - int(shared)) * resource.getpagesize()
    return 0
