"""Writes quarantined rows as they come, without holding them in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact.ledger import quarantine_schema
from tasks.ingestion.formats.batches import BadRow

RAW_LIMIT_BYTES = 2**16
"""Bytes of a quarantined row that are kept."""
SCHEMA = quarantine_schema()
_FLUSH_ROWS = 500


class QuarantineWriter:
    """Writes the bad rows of one file; a context manager."""

    def __init__(self, path: Path, source: str, file: str) -> None:
        self._origin = {"stage": "ingestion", "source": source, "file": file}
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> "QuarantineWriter":
        return self

    def __exit__(self, *_failure: Any) -> None:
        self._flush()
        self._writer.close()

    def extend(self, bad: Sequence[BadRow]) -> None:
        """Adds rows; bytes that are not UTF-8 are kept as escapes such as \\xe9."""
        for entry in bad:
            fault = entry.fault
            raw = entry.raw[:RAW_LIMIT_BYTES].decode("utf-8", "backslashreplace")
            row = {"row": entry.row, "reason": fault.reason, "field": fault.field}
            self._rows.append(self._origin | row | {"message": fault.message, "raw": raw})
            if len(self._rows) >= _FLUSH_ROWS:
                self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=SCHEMA))
            self._rows = []


def merge(parts: Sequence[Path], path: Path) -> None:
    """Joins quarantine files in their order; the result exists even without rows."""
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for part in parts:
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches(_FLUSH_ROWS, use_threads=False):
                    writer.write_batch(batch)
