"""Writes rows as shards, in bounded memory; a background thread encodes and writes.

extend ─> group of rows ─┬─ first shard: written at once ─────────────────────────> in its place
                         └─ others: held ─┬─ full: written as one shard ───────────────┤
                                          └─ the file's last rows: in small shards ────┘
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any

from tasks.artifact import BackgroundCalls
from tasks.ingestion.row_groups import row_groups, sizes_of
from tasks.ingestion.shards import (
    GROUP_BYTES,
    GROUP_ROWS,
    SMALL_SHARD_ROWS,
    UNCOMPRESSED,
    is_full,
)

Writing = Callable[[str], AbstractContextManager[Path]]
"""`Workspace.writing`: a temporary path, renamed into place on success."""
Ended = Callable[[int, int, int], object]
"""Called for each full shard with the number of shards and of rows up to its end, and the row
number of its last row. Later rows do not change such a shard."""


class ShardWriter:
    """Writes the rows of one file of one source as numbered shards; a context manager.

    If the file's beginning is in place already: `shards` is the number of its shards, `rows` the
    rows in full ones, and `small_rows` the rows in small ones after these. In that case, the small
    ones and the rows to come must not fill a shard.
    """

    def __init__(
        self,
        writing: Writing,
        directory: str,
        source: str,
        file: str,
        shards: int = 0,
        rows: int = 0,
        small_rows: int = 0,
        ended: Ended | None = None,
    ) -> None:
        self.shards = shards
        self.small: list[tuple[int, int, int]] = []
        """For each complete small shard, the arguments that `Ended` has for full ones."""
        self._ended = ended
        self._writing, self._directory = writing, directory
        self._source, self._file = source, file
        self._behind = BackgroundCalls()
        self._open: list[ExitStack] = []
        """One for each shard that is not renamed into place yet."""
        self._writer: Any = None
        self._held: list[Any] = []
        """Row groups of a shard that is not full yet: at most `SHARD_BYTES` and one group."""
        self._before = rows
        self._shard_rows, self._shard_bytes = small_rows, 0
        self._rows: list[int] = []
        self._raws: list[bytes] = []
        self._bytes = 0

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *failure: Any) -> None:
        try:
            if failure[0] is None:
                self._flush()
                self._close()  # the first shard, which may be the only one
                self._end_in_small_shards()
                self._behind.finish()
        except BaseException as error:
            failure = type(error), error, error.__traceback__
            raise
        finally:
            self._behind.stop()
            for stack in self._open:  # temporary files of what failed are removed
                stack.__exit__(*failure)

    def extend(self, rows: Sequence[int], raws: Sequence[bytes]) -> None:
        """Adds rows; full shards are written."""
        start = 0
        while start < len(rows):
            part = raws[start : start + GROUP_ROWS - len(self._rows)]
            sizes = [*accumulate(map(len, part), initial=self._bytes)]
            count = min(len(part), bisect_left(sizes, GROUP_BYTES))  # sizes[i]: after i rows
            self._rows += rows[start : start + count]
            self._raws += part[:count]
            self._bytes = sizes[count]
            start += count
            if self._bytes >= GROUP_BYTES or len(self._rows) >= GROUP_ROWS:
                self._end_group()

    def _end_group(self) -> None:
        """Ends a full row group, and the shard if that is full, too."""
        last = self._rows[-1]
        self._flush()
        if is_full(self._before, self._shard_rows, self._shard_bytes):
            if self._ended is not None:
                self._ended(self.shards + 1, self._before + self._shard_rows, last)
            self._write(self._held)
            self._held = []
            self._before += self._shard_rows
            self._shard_rows = self._shard_bytes = 0
            self._close()

    def _flush(self) -> None:
        """Makes a row group of the collected rows."""
        if not self._rows:
            return
        import pyarrow as pa

        count = len(self._rows)
        columns = [
            pa.repeat(self._source, count),
            pa.repeat(self._file, count),
            pa.array(self._rows, pa.int64()),
            pa.array(self._raws, pa.binary()).view(pa.string()),  # orjson parsed or wrote them
        ]
        table = pa.Table.from_arrays(columns, names=["source", "file", "row", "raw"])
        if self._before:
            self._held.append(table)
        else:  # the first shard is never split into small ones
            self._write([table])
        self._shard_rows += count
        self._shard_bytes += self._bytes
        self._rows, self._raws, self._bytes = [], [], 0

    def _end_in_small_shards(self) -> None:
        """Writes the rows that do not fill a shard as small shards, to which a later run can
        append."""
        if not self._held:
            return
        import pyarrow as pa

        left = pa.concat_tables(self._held)
        done = self._before + self._shard_rows - left.num_rows
        for start in range(0, left.num_rows, SMALL_SHARD_ROWS):
            # In one chunk: else the pages would depend on the bounds of the tables.
            rows = left.slice(start, SMALL_SHARD_ROWS).combine_chunks()
            self._write(row_groups(rows, sizes_of(rows)))
            self._close()
            if rows.num_rows == SMALL_SHARD_ROWS:
                done += SMALL_SHARD_ROWS
                self.small.append((self.shards, done, rows["row"][-1].as_py()))

    def _write(self, groups: Iterable[Any]) -> None:
        """Writes groups into the open shard, or into a new one."""
        for group in groups:
            if self._writer is None:
                self._writer = self._opened(group.schema)
            self._behind.put(self._writer.write_table, group, group.num_rows)

    def _opened(self, schema: Any) -> Any:
        import pyarrow.parquet as pq

        writer_class: Any = pq.ParquetWriter  # pyarrow's annotations allow no column names
        name = f"{self._directory}/{self.shards:05d}.parquet"
        stack = ExitStack()
        self._open.append(stack)
        path = stack.enter_context(self._writing(name))
        writer = writer_class(
            path,
            schema,
            compression=UNCOMPRESSED,
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

    def _placed(self, stack: ExitStack) -> None:
        stack.close()  # the writer first, then the rename into place
        self._open.remove(stack)
