"""The rows of a Parquet shard in pieces that are bounded in count and in size.

Rows of many megabytes exist: a bound on their count alone would not bound memory.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def bounded_batches(shard: Path, most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most `most_rows` rows, and of about `most_bytes` unless a row is larger."""
    with pq.ParquetFile(shard, pre_buffer=False) as file:
        for batch in file.iter_batches(most_rows, use_threads=False):
            rows = max(1, batch.num_rows * most_bytes // max(batch.nbytes, most_bytes))
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
