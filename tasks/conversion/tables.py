"""The columns of a shard of pairs, and of the records that find duplicates.

Equal pairs give equal bytes: one writer, fixed settings, one row group per batch of rows.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS = 2048

SCHEMA = pa.schema(
    [
        ("pair_id", pa.string()),
        ("prompt", pa.string()),
        ("chosen", pa.string()),
        ("rejected", pa.string()),
        ("format", pa.string()),
        ("tools", pa.string()),
        ("chat_template_kwargs", pa.string()),
        ("margin", pa.float64()),
        ("weight", pa.float64()),
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("group", pa.string()),
        ("split", pa.string()),
    ]
)
"""prompt, chosen, rejected: JSON text of a string or of a list of messages; prompt may be null."""

KEYS = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        ("exact", "<u4"),
        ("margin", "<u4"),
        ("group", "<u8"),
        ("source", "<u2"),
        ("longer", "i1"),
        ("eval", "?"),
        ("conversational", "?"),
        ("has_margin", "?"),
    ]
)
"""high, low: `Identity.key`; exact, margin: 32 bits of pair_id and of the margin's hash;
longer: the sign of len(chosen) - len(rejected) in characters."""

_REPEATING = ["format", "tools", "chat_template_kwargs", "source", "file", "split"]


def open_writer(path: Path) -> pq.ParquetWriter:
    """A writer of pairs; dictionaries only where values repeat."""
    writer_class: Any = pq.ParquetWriter  # annotated by pyarrow as if it took no column names
    return writer_class(path, SCHEMA, compression="zstd", use_dictionary=_REPEATING)
