"""Shards of texts on disk, read where they stand.

texts/NNNNN.arrow   one per shard of pairs, in the order of its rows; columns as in `batch.SCHEMA`

Arrow's own form, as `datasets.Dataset.from_file` reads it: mapped into memory, nothing has to be
decoded or copied. As Parquet, writing and reading took a fourteenth of both stages' time.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tasks.artifact import Artifact
from tasks.templating.shards.bounded_batches import bounded

TEXTS_DIRECTORY = "texts"


def text_shards(artifact: Artifact) -> list[Path]:
    """The shards of texts of a templating artifact, in row order."""
    return sorted((artifact.path / TEXTS_DIRECTORY).glob("[0-9]*.arrow"))  # no cache of `datasets`


def text_batches(shard: Path, most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most `most_rows` rows, and of about `most_bytes` unless a row is larger."""
    with pa.memory_map(str(shard)) as file, pa.ipc.open_stream(file) as batches:
        yield from bounded(batches, most_rows, most_bytes)
