"""Shards of rows on disk: where they end and how to read them; `shard_writer` writes them.

    rows/00000.parquet   source, file: string; row: int64; raw: string (the row as JSON text)

    a file's rows   |    10,000    |  4,000  |  4,000  | 1,000 | 1,000 | 300 |
    and more        |    10,000    |  4,000  |  4,000  | 1,000 | 1,000 | 1,000 | 50 |
    and more        |    10,000    |  4,000  |  4,000  |   4,000   | 700 |

Later rows do not change where a full shard ends. Rows that do not fill one are written as small
shards. Appended rows change only the last small shard, until the small ones fill a full shard.
The same rows always give the same bytes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.artifact import Artifact

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = "rows"
FIRST_SHARD_ROWS = 10_000
"""A small file is one shard."""
LEAST_SHARD_ROWS, MOST_SHARD_ROWS = 4_000, 20_000
SHARD_SHARE = 25
SMALL_SHARD_ROWS = 1_000
"""Rows of a small shard."""
SHARD_BYTES = 32 * 2**20
GROUP_ROWS = 2_000
GROUP_BYTES = 4 * 2**20
UNCOMPRESSED = "none"
"""The compression of shards of rows and pairs: each is read once, by the next stage, and
compression took a tenth of preparation's time."""


def shard_rows_after(rows: int) -> int:
    """The number of rows in a full shard that comes after `rows` rows of its file: a twenty-fifth
    of these, from 100,000 on."""
    if rows == 0:
        return FIRST_SHARD_ROWS
    return min(MOST_SHARD_ROWS, max(LEAST_SHARD_ROWS, rows // SHARD_SHARE))


def is_full(before: int, rows: int, size: int) -> bool:
    """Whether a shard of `rows` rows and `size` bytes is full; `before` rows of its file precede
    it."""
    return rows >= shard_rows_after(before) or size >= SHARD_BYTES


def row_shards(artifact: Artifact) -> list[Path]:
    """The shard files of an ingestion artifact, in order."""
    return sorted((artifact.path / ROWS).glob("*.parquet"))


def iter_rows(artifact: Artifact) -> Iterator["pa.RecordBatch"]:
    """All rows in order, as record batches of source, file, row and raw."""
    import pyarrow.parquet as pq

    for shard in row_shards(artifact):
        with pq.ParquetFile(shard, pre_buffer=False) as file:
            yield from file.iter_batches(GROUP_ROWS, use_threads=False)


def shard_rows(shard: Path) -> Iterator[tuple[int, bytes]]:
    """Row number and bytes of every row of one shard."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(shard, pre_buffer=False) as file:
        for batch in file.iter_batches(GROUP_ROWS, columns=["row", "raw"], use_threads=False):
            raws = batch.column("raw").cast(pa.binary()).to_pylist()
            yield from zip(batch.column("row").to_pylist(), raws, strict=True)
