"""Memory that one part of a process has freed is there for all others, and goes back in the end.

Left to themselves, Arrow has a pool of its own beside the C library's heap, and that has a heap for
every few threads. Each keeps what was freed in it: three threads that need 20 MB one after another
hold 60. What is never touched need not be cleared page by page, a tenth of a short preparation.
"""

import ctypes
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

ARROWS_POOL, SYSTEM = "ARROW_DEFAULT_MEMORY_POOL", "system"
MOST_HEAPS, LEAST_HEAPS = "MALLOC_ARENA_MAX", 2
"""The variable that bounds them, and how many there are at least: else one for each core. The C
library deals threads out to them in turn."""
M_ARENA_MAX = -8
"""mallopt(3)"""
WORTH_BYTES = 128 * 2**20
"""By which the process has grown since it last gave memory back: less serves the next stage, which
would have to ask the system for it page by page."""
_left = 0
"""Bytes that the process had when it last did."""


def share_heaps() -> None:
    """Arrow and all threads share a few heaps: if nobody imported Arrow yet, and threads that have
    begun before keep theirs.

    For good, in the processes, too, that this one starts (Arrow's pool). What the environment says
    goes first.
    """
    os.environ.setdefault(ARROWS_POOL, SYSTEM)
    if MOST_HEAPS not in os.environ and "arena_max" not in os.environ.get("GLIBC_TUNABLES", ""):
        _call_glibc("mallopt", M_ARENA_MAX, max(LEAST_HEAPS, os.cpu_count() or 1))


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
    _call_glibc("malloc_trim", 0)
    _left = _resident()


def _call_glibc(name: str, *arguments: int) -> None:
    """Calls a function that other C libraries do not have; nothing there."""
    with suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), name)(*arguments)


def _resident() -> int:
    """Bytes in memory that are the process's own, not a file's that it has mapped; 0 where the
    system does not tell (only Linux)."""
    with suppress(OSError):
        _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
        return (int(resident) - int(shared)) * resource.getpagesize()
    return 0
