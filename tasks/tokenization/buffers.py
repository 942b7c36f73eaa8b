"""Memory for large buffers that are needed again and again.

glibc maps every large buffer anew and gives it back to the kernel once it is freed, so that each
batch pays a fault for every page that it touches: a tenth of this stage's time. What counts as
large is learned: once a mapped buffer has been freed, sizes up to its own are taken from memory
that the process keeps, twice as much at most (mallopt(3), M_MMAP_THRESHOLD).
"""

from functools import cache

import numpy as np

KEPT_BYTES = 16 * 2**20


@cache
def keep_freed_memory() -> None:
    """Buffers of up to 16 MB now come from memory that was freed before, where it is glibc's.

    The buffer that teaches it is never written to, and takes no memory itself.
    """
    np.empty(KEPT_BYTES, np.uint8)
