"""Parquet and Arrow files, read a few rows at a time; damage is an error that says where.

Arrow data may be in the file or the stream format; the `datasets` library writes streams.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import DataError, shown
from tasks.ingestion.formats.batches import Batch, Origin
from tasks.ingestion.formats.column_rows import BATCH_ROWS, rows_of
from tasks.ingestion.formats.decompression import PIECE_BYTES, DamagedFile, cause, pieces

BROKEN = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Raised by pyarrow for damaged files; the last if a column's name is not UTF-8."""
NULL_OF_FIXED_SIZE = "Expected all lists to be of size"
"""In pyarrow's message on a sound file with a null among lists of a fixed size."""
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def read_parquet(origin: Origin) -> Iterator[Batch]:
    """The rows of a Parquet file, numbered from 1.

    Raises:
        DamagedFile: the footer or a page is broken.
        DataError: JSON cannot represent a column, or Arrow cannot read it.
    """
    with _plain_file(origin) as path:
        size = path.stat().st_size
        if not size:
            return
        try:
            parquet = pq.ParquetFile(
                path, pre_buffer=False, buffer_size=PIECE_BYTES, page_checksum_verification=True
            )
        except BROKEN as error:
            with path.open("rb") as file:
                head = file.read(4)
            raise DamagedFile(
                f"{origin.name}: no Parquet file ({cause(error)}): {size:,} bytes, starts with "
                f"{shown(head)}, expected b'PAR1' at both ends; fetch or write the file again"
            ) from error
        with parquet:
            yield from rows_of(origin, parquet.schema_arrow, _parquet_batches(origin, parquet))


def read_arrow(origin: Origin) -> Iterator[Batch]:
    """The rows of an Arrow IPC file or stream, numbered from 1.

    Raises:
        DamagedFile: no Arrow data, or it ends too soon.
        DataError: JSON cannot represent a column.
    """
    with _plain_file(origin) as path, pa.OSFile(str(path), "rb") as file:
        if not file.size():
            return
        is_file = file.read(6) == b"ARROW1"
        file.seek(max(0, file.size() - len(END_OF_STREAM)))
        if not is_file and file.read(len(END_OF_STREAM)) != END_OF_STREAM:
            origin.warn(
                f"{origin.name}: the Arrow stream has no end mark; it may have been cut behind a "
                "whole record batch"
            )
        file.seek(0)
        try:
            reader: Any = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
        except BROKEN as error:
            raise DamagedFile(
                f"{origin.name}: no Arrow file or stream ({cause(error)}): {file.size():,} bytes; "
                "fetch or write the file again"
            ) from error
        yield from rows_of(origin, reader.schema, _arrow_batches(origin, reader, is_file))
        origin.advance(file.size())


@contextmanager
def _plain_file(origin: Origin) -> Generator[Path, None, None]:
    """The file itself, or a decompressed copy: these formats are read from both ends."""
    if not origin.codec:
        yield origin.path
        return
    copy = origin.scratch / "decompressed"
    with copy.open("wb") as file:
        file.writelines(pieces(origin))
    try:
        yield copy
    finally:
        copy.unlink()


def _parquet_batches(origin: Origin, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    size = 0 if origin.codec else origin.path.stat().st_size
    groups = file.metadata.num_row_groups
    for group in range(groups):
        try:
            yield from file.iter_batches(BATCH_ROWS, row_groups=[group], use_threads=False)
        except BROKEN as error:
            if NULL_OF_FIXED_SIZE in str(error):
                raise _null_of_fixed_size(origin, file.schema_arrow) from error
            raise DamagedFile(
                f"{origin.name}: corrupt_page in row group {group + 1} of {groups} "
                f"({cause(error)}); fetch or write the file again"
            ) from error
        origin.advance(size // groups)


def _null_of_fixed_size(origin: Origin, schema: pa.Schema) -> DataError:
    named = [f.name for f in schema if "fixed_size_list" in str(f.type)]
    return DataError(
        f"{origin.name}: a list is null in {' or '.join(map(shown, named))}, a column of lists of "
        "one fixed length, which Arrow writes to Parquet and cannot read from it; write it as "
        "lists of any length (pyarrow.list_), or leave the column out"
    )


def _arrow_batches(origin: Origin, reader: Any, is_file: bool) -> Iterator[pa.RecordBatch]:
    number = 0
    try:
        for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
            for column in batch.columns:
                _check_offsets(column)
            yield batch
            number += 1
    except BROKEN as error:
        raise DamagedFile(
            f"{origin.name}: truncated or corrupt behind record batch {number} ({cause(error)}); "
            "fetch or write the file again"
        ) from error


def _check_offsets(column: pa.Array) -> None:
    """Raises ArrowInvalid for offsets out of bounds, whose use would abort the process.

    Top-level text is not checked for UTF-8 here, so that only its bad rows are quarantined.
    """
    kind = column.type
    if pa.types.is_string(kind):
        column = column.view(pa.binary())
    elif pa.types.is_large_string(kind):
        column = column.view(pa.large_binary())
    column.validate(full=True)
