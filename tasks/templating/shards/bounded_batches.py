"""The rows of a shard in pieces that are bounded in count and in size.

Rows of many megabytes exist: a bound on their count alone would not bound memory.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def bounded_batches(shard: Path, most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most `most_rows` rows of a Parquet shard, and of about `most_bytes` unless a
    row is larger."""
    with pq.ParquetFile(shard, pre_buffer=False) as file:
        yield from bounded(file.iter_batches(most_rows, use_threads=False), most_rows, most_bytes)


def bounded(
    batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The same rows in batches within these bounds."""
    for batch in batches:
        rows = batch.num_rows * most_bytes // max(batch.nbytes, most_bytes)
        rows = max(1, min(rows, most_rows))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
