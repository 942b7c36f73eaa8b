"""What is noted of the pairs of a shard, by which they are held against those of all others.

    keys/NNNNN.npy     records of the pairs (`tables.KEYS`), as numpy saves them, and behind them
                       the hashes of stretches of their prompts (`stretches`), 4 bytes each

Records are read where they stand: a field that is not asked for is never in memory.
"""

from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as fmt

Array = npt.NDArray[Any]
HASH = np.dtype("<u4")
MOST_MAPPED = 512
"""Files: each mapping holds a descriptor, and a process often may have no more than 1,024."""
_HEADER = 10
"""Bytes before numpy's description of an array: the last two tell how long that is."""


def write_records(path: Path, records: Array, hashes: Array) -> None:
    """Writes both to a file; `hashes` are prompt by prompt, as the records say how many."""
    with path.open("wb") as stream:
        np.save(stream, records)
        stream.write(hashes.astype(HASH).tobytes())


def records(paths: Sequence[Path]) -> list[Array]:
    """The records of every shard; those of many shards are not all mapped, but read."""
    return [_records(path, mapped=number < MOST_MAPPED) for number, path in enumerate(paths)]


def _records(path: Path, *, mapped: bool) -> Array:
    with path.open("rb") as stream:
        content = mmap(stream.fileno(), 0, access=ACCESS_READ) if mapped else stream.read()
    start = _HEADER + int.from_bytes(content[_HEADER - 2 : _HEADER], "little")
    return np.frombuffer(content, *_header(content[:start]), start)


@lru_cache
def _header(line: bytes) -> tuple[np.dtype[Any], int]:
    """What the first line of such a file says; most shards have the same number of records."""
    stream = BytesIO(line)
    version = fmt.read_magic(stream)
    assert version == (1, 0)
    (count,), _, dtype = fmt.read_array_header_1_0(stream)
    return dtype, count


def field_of(shards: Sequence[Array], name: str) -> Array:
    """One field of all records, end to end."""
    return np.concatenate([records[name] for records in shards])


def hashes(records: Array) -> Array:
    """The hashes of one shard, given its records as they were read: they stand behind them."""
    content: Any = records.base
    count = int(records["stretches"].sum(dtype=np.int64))
    return np.frombuffer(content, HASH, count, len(content) - count * HASH.itemsize)
