"""The pairs of a split, read in windows off the memory-mapped files of tokenization.

    train|eval/NNNNN.arrow  ─>  tables of `WINDOW_PAIRS` rows, with the columns of `COLUMNS`

Rows come in their order, and a window may span files; no file is read whole.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from tasks.errors import DataError
from tasks.tokenization.shards import shards_in

WINDOW_PAIRS = 2048
"""Pairs that are batched together: padding is then below 2 %, and ids fit in a few megabytes."""

COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "pair_id": (pa.string(), None),
    "source": (pa.string(), None),
    "chosen_input_ids": (pa.list_(pa.int32()), None),
    "rejected_input_ids": (pa.list_(pa.int32()), None),
    "shared_prefix_length": (pa.int32(), 0),
    "margin": (pa.float32(), None),
    "weight": (pa.float32(), 1.0),
    "preference": (pa.float32(), 1.0),
    "comparison": (pa.string(), None),
}
"""What is read of every pair: the type, and what stands where a split has no such column."""


def split_files(tokenization: Path, split: str = "eval") -> list[Path]:
    """The Arrow files of a split, in order.

    Raises:
        DataError: there is none.
    """
    files = shards_in(tokenization / split)
    if not files:
        raise DataError(
            f"{tokenization / split} holds no shard (NNNNN.arrow), expected the pairs of split "
            f"{split!r}; raise conversion.eval_fraction or add data, so that pairs are held out"
        )
    return files


def read_windows(files: Sequence[Path], pairs: int = WINDOW_PAIRS) -> Iterator[pa.Table]:
    """The rows of all files in order, `pairs` at a time, without reading a file whole."""
    waiting: list[pa.RecordBatch] = []
    for file in files:
        with pa.memory_map(str(file)) as mapped, ipc.open_stream(mapped) as reader:
            for batch in reader:
                waiting.append(_with_defaults(batch))
                while sum(map(len, waiting)) >= pairs:
                    window = pa.Table.from_batches(waiting)
                    yield window.slice(0, pairs)
                    waiting = window.slice(pairs).to_batches()
    if sum(map(len, waiting)):
        yield pa.Table.from_batches(waiting)


def _with_defaults(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of `COLUMNS`; where the split leaves one out, what its absence means."""
    found = set(batch.schema.names)
    columns = [
        batch[name].cast(kind) if name in found else pa.repeat(pa.scalar(absent, kind), len(batch))
        for name, (kind, absent) in COLUMNS.items()
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))
