"""Memory that is not in use goes back to the system: libraries keep it for their next call."""

import ctypes
import sys
from contextlib import suppress


def give_memory_back() -> None:
    """Hands back what Arrow's pool and the C library hold, but do not use.

    Between stages that is most of what a process has, and the next stage in it, or another process
    beside it, needs other memory. Takes a millisecond or a few.
    """
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
