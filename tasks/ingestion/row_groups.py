"""Where groups of rows end within a shard: by rows, or by bytes, whichever comes first.

bytes up to the end of each row   1 MB   3 MB   4.5 MB   5 MB   5.2 MB ...
                                  └── a group of 4 MB ──┘ └── the next ─
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.ingestion.shards import GROUP_BYTES, GROUP_ROWS

Sizes = npt.NDArray[np.int64]


def sizes_of(rows: Any) -> Sizes:
    """Cumulative bytes: for each row, those of all rows up to its end."""
    import pyarrow.compute as pc

    lengths = pc.call_function("binary_length", [rows["raw"]])
    return np.cumsum(lengths.to_numpy(), dtype=np.int64)


def row_groups(rows: Any, sizes: Sizes) -> Iterator[Any]:
    """A small shard's rows in row groups, by the same rule as in any shard."""
    start = done = 0
    while start < len(sizes):
        left = sizes[start:] - done
        count = full_group(left) or len(left)
        yield rows.slice(start, count)
        start += count
        done = sizes[start - 1]


def full_group(sizes: Sizes) -> int:
    """The number of rows in a full group, from the bytes up to the end of each row; 0 if there are
    too few."""
    sizes = sizes[:GROUP_ROWS]
    full = int(np.searchsorted(sizes, GROUP_BYTES)) + 1
    return full if full <= len(sizes) else len(sizes) // GROUP_ROWS * GROUP_ROWS
