"""Shards of rows on disk: how they are written, in bounded memory, and how they are read.

    rows/00000.parquet   source, file: string; row: int64; raw: string (the row as JSON text)

Shards and their row groups end at fixed counts of rows and bytes, and nothing in them depends on
time or place: the same rows give the same bytes.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifact import Artifact, Behind

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = "rows"
FIRST_SHARD_ROWS = 10_000
"""So that small data is one shard."""
LEAST_SHARD_ROWS, MOST_SHARD_ROWS = 4_000, 20_000
SHARD_SHARE = 25
SHARD_BYTES = 32 * 2**20
GROUP_ROWS = 2_000
GROUP_BYTES = 4 * 2**20

Writing = Callable[[str], AbstractContextManager[Path]]
"""`Workspace.writing`: a temporary path that takes its place on success."""
Ended = Callable[[int, int, int], object]
"""Told of each shard that is full: the shards and the rows up to its end, and its last row's
number. Rows that come later change nothing in it."""


def shard_rows_after(rows: int) -> int:
    """Rows at which the shard ends that begins behind so many rows of its file.

    No end depends on rows that come later, so rows that are appended change the last shard only;
    and that is a twenty-fifth of all rows at most, once there are 100,000.
    """
    if rows == 0:
        return FIRST_SHARD_ROWS
    return min(MOST_SHARD_ROWS, max(LEAST_SHARD_ROWS, rows // SHARD_SHARE))


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
    """Writes the rows of one file of one source as numbered shards; a context manager.

    `shards` of the file stand already, and hold its first `rows` rows. Compressing and writing go
    on behind the caller.
    """

    def __init__(
        self,
        writing: Writing,
        directory: str,
        source: str,
        file: str,
        shards: int = 0,
        rows: int = 0,
        ended: Ended | None = None,
    ) -> None:
        self.shards = shards
        self._ended = ended
        self._writing, self._directory = writing, directory
        self._source, self._file = source, file
        self._behind = Behind()
        self._open: list[ExitStack] = []
        """One for each shard that is not in its place yet; the last may still take rows."""
        self._writer: Any = None
        self._before = rows
        self._shard_rows = self._shard_bytes = 0
        self._rows: list[int] = []
        self._raws: list[bytes] = []
        self._bytes = 0

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *failure: Any) -> None:
        try:
            if failure[0] is None:
                self._flush()
                self._close()
                self._behind.finish()
        except BaseException as error:
            failure = type(error), error, error.__traceback__
            raise
        finally:
            self._behind.stop()
            for stack in self._open:  # temporary files of what failed are removed
                stack.__exit__(*failure)

    def extend(self, rows: Sequence[int], raws: Sequence[bytes]) -> None:
        """Adds rows; what is full is written."""
        start = 0
        while start < len(rows):
            part = raws[start : start + GROUP_ROWS - len(self._rows)]
            sizes = [*accumulate(map(len, part), initial=self._bytes)]
            count = min(len(part), bisect_left(sizes, GROUP_BYTES))  # sizes[count]: with so many
            self._rows += rows[start : start + count]
            self._raws += part[:count]
            self._bytes = sizes[count]
            start += count
            if self._bytes >= GROUP_BYTES or len(self._rows) >= GROUP_ROWS:
                self._end_group()

    def _end_group(self) -> None:
        """Writes a full row group; closes the shard when it is full, too."""
        last = self._rows[-1]
        self._flush()
        if self._shard_rows >= shard_rows_after(self._before) or self._shard_bytes >= SHARD_BYTES:
            if self._ended is not None:
                self._ended(self.shards + 1, self._before + self._shard_rows, last)
            self._close()

    def _flush(self) -> None:
        """Writes a row group of the rows at hand."""
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
            self._writer = self._opened(table.schema)
        self._behind.put(self._writer.write_table, table, count)
        self._shard_rows += count
        self._shard_bytes += self._bytes
        self._rows, self._raws, self._bytes = [], [], 0

    def _opened(self, schema: Any) -> Any:
        import pyarrow.parquet as pq

        writer_class: Any = pq.ParquetWriter  # annotated by pyarrow as if it took no column names
        name = f"{self._directory}/{self.shards:05d}.parquet"
        stack = ExitStack()
        self._open.append(stack)
        path = stack.enter_context(self._writing(name))
        writer = writer_class(
            path,
            schema,
            compression="zstd",
            use_dictionary=["source", "file"],
            write_statistics=["row"],
        )
        stack.callback(writer.close)
        return writer

    def _close(self) -> None:
        if self._writer is None:
            return
        self._behind.put(self._placed, self._open[-1])
        self._writer = None
        self.shards += 1
        self._before += self._shard_rows
        self._shard_rows = self._shard_bytes = 0

    def _placed(self, stack: ExitStack) -> None:
        stack.close()  # the writer first, then the rename into place
        self._open.remove(stack)
