"""Settings of the allocators: freed memory is reused across a process, and returned in the end.

By default Arrow has a memory pool of its own beside the C library's heap, and glibc has several
heaps (arenas), shared among the threads. Each keeps what was freed in it: three threads that need
20 MB one after another hold 60. With one pool and few arenas, fewer pages are touched for the first
time, which the kernel has to clear: a tenth of the time of a short preparation.

glibc also maps every large buffer anew (mmap) and unmaps it when it is freed, so that each batch
pays a page fault for every page that it touches. Here, buffers of up to `KEPT_BYTES` come from the
heap, where memory that was freed is used again.
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
"""The environment variable that bounds the number of arenas, and the least that it is set to; else
there is one for each core. glibc assigns threads to arenas in turn."""
KEPT_BYTES = 16 * 2**20
LARGE_BYTES, LEAST_LARGE_BYTES = 2**30, 32 * 2**20
"""The largest buffer that comes from the heap within `large_buffers_kept`; and the largest that
an older glibc accepts, which is what mallopt(3) documents."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Names of settings: see mallopt(3)."""
MOST = 2**31 - 1
"""The largest value that mallopt takes: an int."""
KEPT_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": KEPT_BYTES,
    "MALLOC_TRIM_THRESHOLD_": 4 * KEPT_BYTES,
}
"""The same settings for a child process: the sizes in bytes from which on a buffer is mapped, and
free memory at the end of a heap is returned to the system."""
WORTH_BYTES = 128 * 2**20
"""Memory is given back only once the process has grown by so much since the last time: less than
that is better kept for the next stage, which would have to get it from the system page by page."""
_keeping = 0
"""How many callers are within `large_buffers_kept`."""
_left = 0
"""Resident bytes of the process after it last gave memory back."""


def share_heaps() -> None:
    """Makes Arrow use the C library's heap, and all threads share a few arenas.

    Arrow's part has no effect if Arrow was imported before, nor the arenas' on threads that run
    already. The settings are permanent, and child processes inherit Arrow's. Settings that stand in
    the environment take precedence.
    """
    os.environ.setdefault(ARROWS_POOL, SYSTEM)
    if not _set_in_environment(MOST_HEAPS):
        _call_glibc("mallopt", M_ARENA_MAX, max(LEAST_HEAPS, os.cpu_count() or 1))
    _keep_buffers(KEPT_BYTES)


@contextmanager
def large_buffers_kept(*, kept: bool = True) -> Generator[None, None, None]:
    """Within it, buffers of up to a GiB come from the heap and are reused; at the end the memory is
    returned to the system. For work that allocates the same large buffers again and again, as
    models on a CPU do.

    Without `kept` it does nothing. Where it is nested (an evaluation in a training), the outermost
    one takes effect.
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
    if not _set_in_environment(*KEPT_VARIABLES):
        if not _call_glibc("mallopt", M_MMAP_THRESHOLD, largest):
            _call_glibc("mallopt", M_MMAP_THRESHOLD, min(largest, LEAST_LARGE_BYTES))
        _call_glibc("mallopt", M_TRIM_THRESHOLD, min(4 * largest, MOST))


def _set_in_environment(*variables: str) -> bool:
    """Whether the environment configures glibc's allocator already, which takes precedence."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc" in tunables or not os.environ.keys().isdisjoint(variables)


def give_memory_back() -> None:
    """Returns to the system what Arrow's pool and the C library hold but do not use.

    Between stages that is most of a process's memory, and other processes may need it. Takes a few
    milliseconds; nothing is done where the process has grown by less than `WORTH_BYTES`.
    """
    global _left
    if 0 < _resident() < _left + WORTH_BYTES:
        return
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    _call_glibc("malloc_trim", 0)
    _left = _resident()


def _call_glibc(name: str, *arguments: int) -> int:
    """Calls a function of glibc; 0 where the C library is another one and does not have it."""
    with suppress(OSError, AttributeError):
        return getattr(ctypes.CDLL(None), name)(*arguments)
    return 0


def _resident() -> int:
    """Resident bytes of the process without those of mapped files; 0 on other systems than Linux,
    which do not tell."""
    with suppress(OSError):
        _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
        return (int(resident) - int(shared)) * resource.getpagesize()
    return 0
