"""What every reader yields: records as JSON object text, and records that cannot be used.

A record is one line of JSONL, one element of a JSON array, one record of a CSV file, one row of
a columnar file. `row` is its 1-based line (JSONL, CSV: the line where it starts) or its number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tasks.errors import shown

ROW_LIMIT_BYTES = 32 * 2**20
"""A larger record is quarantined without being held in memory."""
EXCERPT_BYTES = 1_000
"""Bytes kept of such a record."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a record cannot be used; `field` is empty if no single field is at fault."""

    reason: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class BadRow:
    """A record that goes to quarantine."""

    row: int
    fault: Fault
    raw: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """Some consecutive records of one file: read = len(rows) + len(bad) + len(blank)."""

    read: int
    """Records found before any was parsed."""
    rows: list[int] = field(default_factory=list[int])
    raws: list[bytes] = field(default_factory=list[bytes])
    """JSON object text in UTF-8, one per entry of `rows`."""
    bad: list[BadRow] = field(default_factory=list[BadRow])
    blank: list[int] = field(default_factory=list[int])
    """Lines of nothing but white space."""

    @property
    def counted(self) -> int:
        """Records that count against a source's limit: all but blank lines."""
        return len(self.rows) + len(self.bad)


def ignore(_: object) -> None:
    """A callback that does nothing."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a reader reads."""

    path: Path
    name: str
    """Its name in messages and in the `file` column."""
    codec: str
    """Compression, by its name: one of `extensions.CODECS`, or empty."""
    delimiter: str
    scratch: Path
    """A directory for a decompressed copy, where a format needs one."""
    advance: Callable[[int], object] = ignore
    """Called with the number of bytes on disk that were read since the last call."""
    warn: Callable[[str], object] = ignore
    declare: Callable[[Mapping[str, str]], object] = ignore
    """Called with the columns of a file that declares them: name -> kind."""
    follow: Callable[[bytes], object] = ignore
    """Called with the bytes of a plain file as they are read."""
    quotes: bool = True
    """Whether quotes enclose cells."""


def first_rows(batch: Batch, limit: int) -> Batch:
    """The batch up to its `limit`-th record (`limit` >= 1), without the blank lines after that."""
    if batch.counted <= limit:
        return batch
    last = sorted([*batch.rows, *(bad.row for bad in batch.bad)])[limit - 1]
    kept = [i for i, row in enumerate(batch.rows) if row <= last]
    bad = [entry for entry in batch.bad if entry.row <= last]
    blank = [row for row in batch.blank if row <= last]
    return Batch(
        read=len(kept) + len(bad) + len(blank),
        rows=[batch.rows[i] for i in kept],
        raws=[batch.raws[i] for i in kept],
        bad=bad,
        blank=blank,
    )


def not_utf8(error: UnicodeDecodeError) -> Fault:
    """The fault of a record that is not UTF-8."""
    found = shown(error.object[error.start : error.start + 8])
    message = f"byte {error.start + 1} is not UTF-8 ({found}); convert the file to UTF-8"
    return Fault("bad_utf8", "", message)


def too_large(row: int, size: int, excerpt: bytes) -> BadRow:
    """The quarantine entry of a record above `ROW_LIMIT_BYTES`."""
    limit = ROW_LIMIT_BYTES // 2**20
    message = f"{size:,} bytes; a row may hold at most {limit} MB: split or shorten it"
    return BadRow(row, Fault("row_too_large", "", message), excerpt[:EXCERPT_BYTES])
