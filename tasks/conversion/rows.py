"""Pass 1: the rows of one ingestion shard become pairs.

In:  rows/NNNNN.parquet (source, file, row, raw).
Out: the shard's pairs before duplicates are taken out, a small record per pair that finds the
     duplicates, the quarantined rows, and a summary: ledger, first examples, notes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Ledger, Quarantine, Workspace
from tasks.conversion import shards, tables
from tasks.conversion.identity import Identity, identify
from tasks.conversion.layouts import reader
from tasks.conversion.layouts.columns import Row
from tasks.conversion.pair import Pair, checked
from tasks.conversion.unusable import Unusable, found

ROW_COLUMNS = ["source", "file", "row", "raw"]


@dataclass(frozen=True)
class Plan:
    """How to read the sources and where their pairs go; small, and can be sent to a process."""

    layouts: Mapping[str, tuple[str, Mapping[str, str]]]
    """Source name -> its layout and its column mapping, in the order of the sources."""
    seed: int
    eval_fraction: float


@dataclass
class _Shard:
    """What has been made of a shard so far."""

    plan: Plan
    ledger: Ledger = field(default_factory=Ledger)
    quarantine: Quarantine = field(default_factory=lambda: Quarantine("conversion"))
    notes: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    pairs: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    keys: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])

    def __post_init__(self) -> None:
        layouts = self.plan.layouts
        self.readers = {name: reader(*layout) for name, layout in layouts.items()}
        self.numbers = {name: number for number, name in enumerate(layouts)}

    def take(self, source: str, file: str, row: int, raw: str) -> None:
        """Adds one row's pairs, or quarantines it."""
        self.ledger.count_in(source)
        try:
            pairs = self.readers[source](parsed(raw))
        except Unusable as problem:
            self._drop(problem, source, file, row, raw)
            return
        assert pairs, "a layout returns pairs or raises Unusable"
        if len(pairs) > 1:
            self.ledger.count_added(source, len(pairs) - 1)
        for pair in pairs:
            try:
                pair = checked(pair)
            except Unusable as problem:
                self._drop(problem, source, file, row, raw)
                continue
            if pair.notes:
                self.notes.setdefault(source, Counter()).update(pair.notes)
            identity = identify(pair, self.plan.seed, self.plan.eval_fraction)
            self.pairs.append(_pair_values(pair, identity, source, file, row))
            self.keys.append(_key_values(pair, identity, self.numbers[source]))

    def _drop(self, problem: Unusable, source: str, file: str, row: int, raw: str) -> None:
        self.ledger.drop(source, problem.reason)
        self.quarantine.add(source, file, row, problem.reason, problem.field, problem.message, raw)

    def table(self) -> pa.Table:
        """The pairs since the last call."""
        columns = list(zip(*self.pairs, strict=True)) or [()] * len(tables.SCHEMA)
        self.pairs = []
        arrays = [pa.array(c, f.type) for c, f in zip(columns, tables.SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=tables.SCHEMA)


def parsed(raw: str) -> Row:
    """The row as a JSON object.

    Raises:
        Unusable: bad_json, not_object.
    """
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Unusable(
            "bad_json", "raw", f"found {found(raw)}, which is no JSON: {error}; correct the line"
        ) from None
    if not isinstance(row, dict):
        raise Unusable("not_object", "raw", f"found {found(row)}, expected an object with columns")
    return row


def convert_shard(workspace: Workspace, path: Path, plan: Plan) -> dict[str, Any]:
    """Writes what the shard's rows become; the summary, which is kept as the unit's."""
    shard = _Shard(plan)
    name = path.stem
    with workspace.writing(f"{shards.RAW_PAIRS}/{name}.parquet") as out:
        _write_pairs(shard, path, out)
    with workspace.writing(f"{shards.KEY_ARRAYS}/{name}.npy") as out, out.open("wb") as stream:
        np.save(stream, np.array(shard.keys, dtype=tables.KEYS))
    with workspace.writing(f"{shards.QUARANTINES}/{name}.parquet") as out:
        shard.quarantine.write(out)
    summary = {
        "ledger": shard.ledger.to_json(),
        "examples": _examples(shard.quarantine),
        "notes": {source: dict(sorted(c.items())) for source, c in shard.notes.items()},
    }
    workspace.finish(f"rows-{name}", summary)
    return summary


def _write_pairs(shard: _Shard, rows: Path, out: Path) -> None:
    with pq.ParquetFile(rows) as file, tables.open_writer(out) as writer:
        for batch in file.iter_batches(tables.BATCH_ROWS, columns=ROW_COLUMNS):
            columns = [batch.column(c).to_pylist() for c in ROW_COLUMNS]
            for origin in zip(*columns, strict=True):
                shard.take(*origin)
            writer.write_table(shard.table())


def _examples(quarantine: Quarantine) -> dict[str, dict[str, dict[str, Any]]]:
    """The first quarantined row of each source and reason."""
    first: dict[str, dict[str, dict[str, Any]]] = {}
    for row in quarantine.rows:
        kept = {name: row[name] for name in ("file", "row", "field", "message")}
        first.setdefault(row["source"], {}).setdefault(row["reason"], kept)
    return first


def _pair_values(
    pair: Pair, identity: Identity, source: str, file: str, row: int
) -> tuple[Any, ...]:
    """In the order of `tables.SCHEMA`."""
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
        source,
        file,
        row,
        identity.group,
        identity.split,
    )


def _key_values(pair: Pair, identity: Identity, source: int) -> tuple[Any, ...]:
    """In the order of `tables.KEYS`."""
    difference = _characters(pair.chosen) - _characters(pair.rejected)
    return (
        int.from_bytes(identity.key[:8], "big"),
        int.from_bytes(identity.key[8:], "big"),
        int(identity.pair_id[:8], 16),
        crc32(repr(pair.margin).encode()),
        int(identity.group[:16], 16),
        source,
        (difference > 0) - (difference < 0),
        identity.split == "eval",
        pair.format == "conversational",
        pair.margin is not None,
    )


def _characters(answer: Any) -> int:
    if isinstance(answer, str):
        return len(answer)
    return sum(len(message["content"] or "") for message in answer)


def first_rows(paths: Sequence[Path], sources: Sequence[str], count: int) -> dict[str, list[Row]]:
    """Up to `count` rows of each source that are JSON objects: its first, in row order."""
    rows: dict[str, list[Row]] = {source: [] for source in sources}
    for path in paths:
        with pq.ParquetFile(path) as file:
            named = set(file.read(columns=["source"])["source"].unique().to_pylist())
            if any(name in rows and len(rows[name]) < count for name in named):
                _take_first(file, rows, count)
    return rows


def _take_first(file: pq.ParquetFile, rows: dict[str, list[Row]], count: int) -> None:
    for batch in file.iter_batches(tables.BATCH_ROWS, columns=["source", "raw"]):
        for source, raw in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            if source in rows and len(rows[source]) < count:
                with suppress(Unusable):
                    rows[source].append(parsed(raw))
        if all(len(found) >= count for found in rows.values()):
            return
