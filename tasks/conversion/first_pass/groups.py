"""Rows that make pairs with one another are laid out side by side, in bounded memory.

In:  rows/NNNNN.parquet, where the answers to one prompt may stand in any shard of their source.
Out: scratch/groups/NNNNN.parquet with a column `key`: the rows of one key stand together, in one
     shard. Only rows of sources whose layout joins rows are in them.

Two passes, as a join on disk is done. `route` writes each shard's rows with one row group per
bucket, a bucket being a share of the keys; `gather` reads one bucket out of all routed shards and
sorts it. There are as many buckets as shards with such rows, so that a bucket is about as large as
a shard, or smaller; only the rows of one single prompt must fit into memory, however many they are.

A row that cannot be read, or that makes its pairs alone, has a key of its own.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Workspace, each
from tasks.conversion.first_pass.raw_row import raw_row
from tasks.conversion.first_pass.row_batches import ROW_COLUMNS
from tasks.conversion.first_pass.rows import KEY
from tasks.conversion.layouts import reader
from tasks.conversion.plan import Plan
from tasks.conversion.preference.answers import Answer
from tasks.conversion.unusable import Unusable

ROUTED = "scratch/routed"
GROUPS = "scratch/groups"
MOST_BUCKETS = 256
KEY_BYTES = 16
SCHEMA = pa.schema(
    [
        (KEY, pa.binary(KEY_BYTES)),
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("raw", pa.string()),
    ]
)


def laid_out(
    workspace: Workspace, rows: Sequence[Path], plan: Plan, workers: int
) -> tuple[list[Path], list[Path]]:
    """The shards that hold rows to be read one by one, and group shards for all others.

    Group shards take the numbers after the last shard of rows. Without a source that joins rows,
    nothing is written.
    """
    if not plan.joined:
        return list(rows), []
    sources = {path: _sources(path) for path in rows}
    routed = [path for path in rows if sources[path] & plan.joined]
    buckets = min(len(routed), MOST_BUCKETS)
    left = [path for path in routed if workspace.finished(f"routed-{path.stem}") is None]
    work = partial(route, workspace, plan=plan, buckets=buckets)
    each(work, left, workers, "conversion: routing", len(routed) - len(left))
    numbers = range(len(rows), len(rows) + buckets)
    shards = [workspace.path / GROUPS / f"{number:05d}.parquet" for number in numbers]
    left = [path for path in shards if workspace.finished(f"grouped-{path.stem}") is None]
    parts = [workspace.path / ROUTED / path.name for path in routed]
    work = partial(gather, workspace, parts=parts, first=len(rows))
    each(work, left, workers, "conversion: grouping", len(shards) - len(left))
    return [path for path in rows if sources[path] - plan.joined], shards


def _sources(path: Path) -> set[str]:
    return set(pq.read_table(path, columns=["source"])["source"].unique().to_pylist())


def route(workspace: Workspace, path: Path, plan: Plan, buckets: int) -> None:
    """Writes the shard's rows that are joined, with a row group for each bucket."""
    readers = {name: reader(*plan.layouts[name]) for name in plan.joined}
    table = pq.read_table(path, columns=ROW_COLUMNS)
    table = table.filter(pa.array([name in readers for name in table["source"].to_pylist()]))
    columns = [table[name].to_pylist() for name in ("source", "raw", "file")]
    keys = [_key(readers[source], raw, file) for source, raw, file in zip(*columns, strict=True)]
    table = table.add_column(0, SCHEMA.field(KEY), [pa.array(keys, SCHEMA.field(KEY).type)])
    places = np.array([int.from_bytes(key[:8], "big") % buckets for key in keys], np.int64)
    with workspace.writing(f"{ROUTED}/{path.name}") as out, _writer(out) as writer:
        for bucket in range(buckets):
            part = table.take(pa.array(np.flatnonzero(places == bucket)))
            writer.write_table(part.cast(SCHEMA), row_group_size=max(1, len(part)))
    workspace.finish(f"routed-{path.stem}", {"rows": len(keys)})


def gather(workspace: Workspace, path: Path, parts: Sequence[Path], first: int) -> None:
    """Writes one bucket's rows, sorted so that those of one key stand together.

    Within a key they stand as in the source: sorted by file and row.
    """
    tables: list[pa.Table] = []
    for part in parts:
        with pq.ParquetFile(part) as file:
            tables.append(file.read_row_group(int(path.stem) - first))
    order = [(name, "ascending") for name in ("source", KEY, "file", "row")]
    table = pa.concat_tables(tables).sort_by(order)
    with workspace.writing(f"{GROUPS}/{path.name}") as out, _writer(out) as writer:
        writer.write_table(table)
    workspace.finish(f"grouped-{path.stem}", {"rows": len(table)})


def _writer(path: Path) -> Any:
    writer_class: Any = pq.ParquetWriter  # annotated by pyarrow as if it took no column names
    return writer_class(path, SCHEMA, compression="zstd", use_dictionary=["source", "file"])


def _key(read: Any, raw: str, file: str) -> bytes:
    """What joins the row with others: its group's id, or its prompt with its context."""
    try:
        items = read(raw_row(raw, file))
    except Unusable:
        items = []
    answer = next((item for item in items if isinstance(item, Answer)), None)
    if answer is None:
        parts = [b"alone", raw.encode()]
    elif answer.group is not None:
        parts = [b"id", answer.group.encode()]
    else:
        prompt = orjson.dumps(answer.prompt, option=orjson.OPT_SORT_KEYS)
        context = [answer.tools or "", answer.chat_template_kwargs or ""]
        parts = [b"prompt", prompt, *(text.encode() for text in context)]
    return blake2b(b"\0".join(parts), digest_size=KEY_BYTES).digest()
