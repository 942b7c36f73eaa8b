"""Shards of rows on disk: how they are written, in bounded memory, and how they are read.

    rows/00000.parquet   source, file: string; row: int64; raw: string (the row as JSON text)

Shards and their row groups end at fixed counts of rows and bytes, and nothing in them depends on
time or place: the same rows give the same bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifact import Artifact

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = "rows"
SHARD_ROWS = 20_000
SHARD_BYTES = 32 * 2**20
GROUP_ROWS = 2_000
GROUP_BYTES = 4 * 2**20

Writing = Callable[[str], AbstractContextManager[Path]]
"""`Workspace.writing`: a temporary path that takes its place on success."""


def row_shards(artifact: Artifact) -> list[Path]:
    """The shard files of an ingestion artifact, in order."""
    return sorted((artifact.path / ROWS).glob("*.parquet"))


def iter_rows(artifact: Artifact, batch_rows: int = GROUP_ROWS) -> Iterator["pa.RecordBatch"]:
    """All rows in order, as record batches of source, file, row and raw."""
    import pyarrow.parquet as pq

    for shard in row_shards(artifact):
        with pq.ParquetFile(shard, pre_buffer=False) as file:
            yield from file.iter_batches(batch_rows, use_threads=False)


def shard_rows(shard: Path) -> Iterator[tuple[int, bytes]]:
    """Row number and bytes of every row of one shard."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(shard, pre_buffer=False) as file:
        for batch in file.iter_batches(GROUP_ROWS, columns=["row", "raw"], use_threads=False):
            raws = batch.column("raw").cast(pa.binary()).to_pylist()
            yield from zip(batch.column("row").to_pylist(), raws, strict=True)


class ShardWriter:
    """Writes the rows of one file of one source as numbered shards; a context manager."""

    def __init__(self, writing: Writing, directory: str, source: str, file: str) -> None:
        self.shards = 0
        self._writing, self._directory = writing, directory
        self._source, self._file = source, file
        self._stack = ExitStack()
        self._writer: Any = None
        self._shard_rows = self._shard_bytes = 0
        self._rows: list[int] = []
        self._raws: list[bytes] = []
        self._bytes = 0

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *failure: Any) -> None:
        if failure[0] is None:
            self._flush()
            self._close()
        else:
            self._stack.__exit__(*failure)  # the open shard's temporary file is removed

    def extend(self, rows: Sequence[int], raws: Sequence[bytes]) -> None:
        """Adds rows; what is full is written."""
        size = sum(map(len, raws))
        if self._bytes + size < GROUP_BYTES and len(self._rows) + len(rows) < GROUP_ROWS:
            self._rows += rows
            self._raws += raws
            self._bytes += size
            return
        for row, raw in zip(rows, raws, strict=True):
            self._rows.append(row)
            self._raws.append(raw)
            self._bytes += len(raw)
            if self._bytes >= GROUP_BYTES or len(self._rows) >= GROUP_ROWS:
                self._flush()

    def _flush(self) -> None:
        """Writes a row group; closes the shard when it is full."""
        if not self._rows:
            return
        import pyarrow as pa

        count = len(self._rows)
        columns = [
            pa.repeat(self._source, count),
            pa.repeat(self._file, count),
            pa.array(self._rows, pa.int64()),
            pa.array(self._raws, pa.binary()).cast(pa.string()),
        ]
        table = pa.Table.from_arrays(columns, names=["source", "file", "row", "raw"])
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table, row_group_size=count)
        self._shard_rows += count
        self._shard_bytes += self._bytes
        self._rows, self._raws, self._bytes = [], [], 0
        if self._shard_rows >= SHARD_ROWS or self._shard_bytes >= SHARD_BYTES:
            self._close()

    def _open(self, schema: Any) -> Any:
        import pyarrow.parquet as pq

        writer_class: Any = pq.ParquetWriter  # annotated by pyarrow as if it took no column names
        name = f"{self._directory}/{self.shards:05d}.parquet"
        path = self._stack.enter_context(self._writing(name))
        writer = writer_class(
            path,
            schema,
            compression="zstd",
            use_dictionary=["source", "file"],
            write_statistics=["row"],
        )
        self._stack.callback(writer.close)
        return writer

    def _close(self) -> None:
        if self._writer is None:
            return
        self._stack.close()  # the writer first, then the rename into place
        self._writer = None
        self.shards += 1
        self._shard_rows = self._shard_bytes = 0
