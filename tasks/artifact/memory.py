"""Memory that one part of a process has freed is there for all others, and goes back in the end.

Left to themselves, Arrow has a pool of its own beside the C library's heap, and that has a heap for
every few threads. Each keeps what was freed in it: three threads that need 20 MB one after another
hold 60. What is never touched need not be cleared page by page, a tenth of a short preparation.

And glibc maps every large buffer anew, and gives it back to the kernel once it is freed, so that
each batch pays a fault for every page that it touches. Buffers of up to `KEPT_BYTES` are taken from
memory that was freed before.
"""

import ctypes
import gc
import os
import resource
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

ARROWS_POOL, SYSTEM = "ARROW_DEFAULT_MEMORY_POOL", "system"
MOST_HEAPS, LEAST_HEAPS = "MALLOC_ARENA_MAX", 2
"""The variable that bounds them, and how many there are at least: else one for each core. The C
library deals threads out to them in turn."""
KEPT_BYTES = 16 * 2**20
LARGE_BYTES, LEAST_LARGE_BYTES = 2**30, 32 * 2**20
"""Of buffers that are kept while `large_buffers_kept`; and where the C library is an older one,
which takes no more than mallopt(3) promises."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""mallopt(3), which takes an int."""
MOST = 2**31 - 1
KEPT_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": KEPT_BYTES,
    "MALLOC_TRIM_THRESHOLD_": 4 * KEPT_BYTES,
}
"""For a process that is started: buffers that are mapped, and free memory at a heap's end that goes
back, from how many bytes on."""
WORTH_BYTES = 128 * 2**20
"""By which the process has grown since it last gave memory back: less serves the next stage, which
would have to ask the system for it page by page."""
_keeping = 0
"""How many callers are within `large_buffers_kept`."""
_left = 0
"""Bytes that the process had when it last did."""


def share_heaps() -> None:
    """Arrow and all threads share a few heaps, which keep what is freed: if nobody imported Arrow
    yet, and threads that have begun before keep theirs.

    For good, in the processes, too, that this one starts (Arrow's pool). What the environment says
    goes first.
    """
    os.environ.setdefault(ARROWS_POOL, SYSTEM)
    if not _told(MOST_HEAPS):
        _call_glibc("mallopt", M_ARENA_MAX, max(LEAST_HEAPS, os.cpu_count() or 1))
    _keep_buffers(KEPT_BYTES)


@contextmanager
def large_buffers_kept(*, kept: bool = True) -> Generator[None, None, None]:
    """Inside, buffers of up to a GiB are taken from memory that was freed before, which goes back
    at the end: for work that makes the same large ones again and again, as models on a CPU do.

    Nothing if not `kept`; within itself (an evaluation in a training) the outer one decides.
    """
    global _keeping
    if not kept:
        yield
        return
    _keeping += 1
    if _keeping == 1:
        _keep_buffers(LARGE_BYTES)
    try:
        yield
    finally:
        _keeping -= 1
        if _keeping == 0:
            _keep_buffers(KEPT_BYTES)
            _call_glibc("malloc_trim", 0)


@contextmanager
def uncollected() -> Generator[None, None, None]:
    """Within, Python's cyclic garbage collector is off: rows hold no reference cycles, and looking
    for some costs a tenth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _keep_buffers(largest: int) -> None:
    if not _told(*KEPT_VARIABLES):
        if not _call_glibc("mallopt", M_MMAP_THRESHOLD, largest):
            _call_glibc("mallopt", M_MMAP_THRESHOLD, min(largest, LEAST_LARGE_BYTES))
        _call_glibc("mallopt", M_TRIM_THRESHOLD, min(4 * largest, MOST))


def _told(*variables: str) -> bool:
    """Whether the environment has told the C library, which goes first."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc" in tunables or not os.environ.keys().isdisjoint(variables)


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


def _call_glibc(name: str, *arguments: int) -> int:
    """What a function returns that other C libraries do not have; 0 there."""
    with suppress(OSError, AttributeError):
        return getattr(ctypes.CDLL(None), name)(*arguments)
    return 0


def _resident() -> int:
    """Bytes in memory that are the process's own, not a file's that it has mapped; 0 where the
    system does not tell (only Linux)."""
    with suppress(OSError):
        _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
        return (int(resident) - int(shared)) * resource.getpagesize()
    return 0
