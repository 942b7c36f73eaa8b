"""The columns of a shard of pairs, and of the records that find duplicates.

Equal pairs give equal bytes: one writer, fixed settings, one row group per batch of rows.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.conversion.conversation.messages import text_of
from tasks.conversion.first_pass.joining import Origin
from tasks.conversion.preference.identity import Identity
from tasks.conversion.preference.pair import Pair
from tasks.ingestion.shards import UNCOMPRESSED

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
        ("images", pa.string()),
        ("chosen_first", pa.bool_()),
    ]
)
"""prompt, chosen, rejected: JSON text of a string or of a list of messages; prompt may be null.
images: JSON text of a list; chosen_first: null where the row has its answers in no order."""

KEYS = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        ("exact", "<u4"),
        ("margin", "<u4"),
        ("group", "<u8"),
        ("together", "<u8"),
        ("source", "<u2"),
        ("longer", "i1"),
        ("eval", "?"),
        ("conversational", "?"),
        ("has_margin", "?"),
        ("has_comparison", "?"),
        ("preference", "<f8"),
        ("better", "<u8"),
        ("worse", "<u8"),
        ("stretches", "<u2"),
    ]
)
"""high, low: `Identity.key`; exact, margin: 32 bits of pair_id and of margin and preference;
together: of the group by which it is split; longer: the sign of len(chosen) - len(rejected) in
characters; better, worse: `Identity.answers`; stretches: how many hashes of the shard are those of
the prompt (`stretches`)."""

_REPEATING = ["format", "tools", "chat_template_kwargs", "source", "file", "split"]


def open_writer(path: Path) -> pq.ParquetWriter:
    """A writer of a shard of pairs; dictionaries only where values repeat."""
    writer_class: Any = pq.ParquetWriter  # annotated by pyarrow as if it took no column names
    return writer_class(path, SCHEMA, compression=UNCOMPRESSED, use_dictionary=_REPEATING)


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
        pair.images,
        pair.chosen_first,
    )


def record_batch(pairs: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows of `pair_values` as columns."""
    columns = list(zip(*pairs, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def key_values(pair: Pair, identity: Identity, source: int) -> tuple[Any, ...]:
    """What `key_array` makes a record of; `source` is its number among the sources."""
    longer = _characters(pair.chosen) - _characters(pair.rejected)
    return (
        identity.key,
        identity.pair_id,
        identity.group,
        identity.together,
        *identity.answers,
        fingerprint(pair.margin, pair.preference),
        source,
        (longer > 0) - (longer < 0),
        identity.split == "eval",
        pair.format == "conversational",
        pair.margin is not None,
        pair.comparison is not None,
        pair.preference,
    )


def key_array(values: Sequence[tuple[Any, ...]]) -> npt.NDArray[Any]:
    """Rows of `key_values` as `KEYS`, column by column."""
    records = np.zeros(len(values), KEYS)
    if not values:
        return records
    keys, pair_ids, groups, together, better, worse, *others = zip(*values, strict=True)
    records["high"], records["low"] = _numbers(b"".join(keys), ">u8", 2).T
    records["exact"] = _numbers(bytes.fromhex("".join(pair_ids)), ">u4", 4)[:, 0]
    for name, hashes in (("group", groups), ("together", together)):
        records[name] = _numbers(bytes.fromhex("".join(hashes)), ">u8", 2)[:, 0]
    records["better"] = np.frombuffer(b"".join(better), ">u8")
    records["worse"] = np.frombuffer(b"".join(worse), ">u8")
    for name, column in zip(_PLAIN, others, strict=True):
        records[name] = column
    return records


_PLAIN = (
    "margin",
    "source",
    "longer",
    "eval",
    "conversational",
    "has_margin",
    "has_comparison",
    "preference",
)
"""The fields that `key_values` ends with, in its order."""


def _numbers(values: bytes, kind: str, each: int) -> npt.NDArray[Any]:
    return np.frombuffer(values, kind).reshape(-1, each)


@lru_cache(maxsize=4096)
def fingerprint(margin: float | None, preference: float) -> int:
    return crc32(repr((margin, preference)).encode())


def _characters(answer: Any) -> int:
    if isinstance(answer, str):
        return len(answer)
    return sum([len(text_of(message)) for message in answer])
