"""The columns of a shard of pairs, and of the records that find duplicates.

Equal pairs give equal bytes: one writer, fixed settings, one row group per batch of rows.
"""

from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.conversion.identity import Identity
from tasks.conversion.joining import Origin
from tasks.conversion.pair import TIE, Pair

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
        ("preference", pa.float64()),
        ("comparison", pa.string()),
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
        ("has_preference", "?"),
        ("has_comparison", "?"),
        ("tie", "?"),
        ("better", "<u8"),
        ("worse", "<u8"),
    ]
)
"""high, low: `Identity.key`; exact, margin: 32 bits of pair_id and of margin and preference;
longer: the sign of len(chosen) - len(rejected) in characters; better, worse: `Identity.answers`."""

_REPEATING = ["format", "tools", "chat_template_kwargs", "source", "file", "split"]


def open_writer(path: Path) -> pq.ParquetWriter:
    """A writer of pairs; dictionaries only where values repeat."""
    writer_class: Any = pq.ParquetWriter  # annotated by pyarrow as if it took no column names
    return writer_class(path, SCHEMA, compression="zstd", use_dictionary=_REPEATING)


def pair_values(pair: Pair, identity: Identity, origin: Origin) -> tuple[Any, ...]:
    """A pair as a row of the shard, in the order of `SCHEMA`."""
    return (
        identity.pair_id,
        identity.prompt,
        identity.chosen,
        identity.rejected,
        pair.format,
        pair.tools,
        pair.chat_template_kwargs,
        pair.margin,
        pair.weight,
        pair.preference,
        pair.comparison,
        origin.source,
        origin.file,
        origin.row,
        identity.group,
        identity.split,
    )


def key_values(pair: Pair, identity: Identity, source: int) -> tuple[Any, ...]:
    """A pair as a record of `KEYS`; `source` is its number among the sources."""
    difference = _characters(pair.chosen) - _characters(pair.rejected)
    return (
        int.from_bytes(identity.key[:8], "big"),
        int.from_bytes(identity.key[8:], "big"),
        int(identity.pair_id[:8], 16),
        crc32(repr((pair.margin, pair.preference)).encode()),
        int(identity.group[:16], 16),
        source,
        (difference > 0) - (difference < 0),
        identity.split == "eval",
        pair.format == "conversational",
        pair.margin is not None,
        pair.preference != 1,
        pair.comparison is not None,
        pair.preference == TIE,
        *(int.from_bytes(name, "big") for name in identity.answers),
    )


def _characters(answer: Any) -> int:
    if isinstance(answer, str):
        return len(answer)
    return sum(len(message["content"] or "") for message in answer)
