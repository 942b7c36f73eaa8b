"""What is noted of the pairs of a shard, by which they are held against those of all others.

    keys/NNNNN.npy     records of the pairs (`tables.KEYS`), as numpy saves them, and behind them
                       the hashes of stretches of their prompts (`stretches`), 4 bytes each

Records are read where they stand: a field that is not asked for is never in memory.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
HASH = np.dtype("<u4")


def write_records(path: Path, records: Array, hashes: Array) -> None:
    """Writes both to a file; `hashes` are prompt by prompt, as the records say how many."""
    with path.open("wb") as stream:
        np.save(stream, records)
        stream.write(hashes.astype(HASH).tobytes())


def records(paths: Sequence[Path]) -> list[Array]:
    """The records of every shard."""
    return [np.load(path, mmap_mode="r") for path in paths]


def hashes(path: Path, records: Array) -> Array:
    """The hashes of one shard, given its records."""
    size = int(records["stretches"].sum(dtype=np.int64)) * HASH.itemsize
    return np.fromfile(path, HASH, offset=path.stat().st_size - size)
