"""Pass 1: the rows of one ingestion shard become pairs.

In:  rows/NNNNN.parquet (source, file, row, raw), of which the rows of sources that are joined are
     passed over; or a shard of the latter, laid out by `groups` so that what belongs together
     stands together (with a column `key`).
Out: the shard's pairs before duplicates are taken out, a small record per pair that finds the
     duplicates, the quarantined rows, and a summary: ledger, first examples, notes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Ledger, Quarantine, Workspace
from tasks.conversion import shards, tables
from tasks.conversion.answers import Answer, Item
from tasks.conversion.identity import identify
from tasks.conversion.joining import Joined, Origin, join
from tasks.conversion.layouts import LAYOUTS, reader
from tasks.conversion.layouts.columns import Row
from tasks.conversion.options import Options
from tasks.conversion.pair import Pair, checked
from tasks.conversion.signals import signals
from tasks.conversion.ties import Tie, Ties
from tasks.conversion.tolerance import first_examples
from tasks.conversion.unusable import NOT_QUARANTINED, Unusable, found

ROW_COLUMNS = ["source", "file", "row", "raw"]
KEY = "key"


@dataclass(frozen=True)
class Plan:
    """How to read the sources and where their pairs go; small, and can be sent to a process."""

    layouts: Mapping[str, tuple[str, Mapping[str, str], Options]]
    """Source name -> its layout, column mapping and options, in the order of the sources."""
    seed: int
    eval_fraction: float
    ties: Ties = "drop"

    @property
    def joined(self) -> frozenset[str]:
        """The sources of which several rows may make one pair."""
        return frozenset(n for n, (layout, *_) in self.layouts.items() if LAYOUTS[layout].joins)


@dataclass
class _Shard:
    """What has been made of a shard so far."""

    plan: Plan
    ledger: Ledger = field(default_factory=Ledger)
    quarantine: Quarantine = field(default_factory=lambda: Quarantine("conversion"))
    notes: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    labels: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    pairs: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    keys: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])

    def __post_init__(self) -> None:
        layouts = self.plan.layouts
        self.readers = {name: reader(*layout) for name, layout in layouts.items()}
        self.numbers = {name: number for number, name in enumerate(layouts)}

    def take(self, origin: Origin) -> None:
        """Adds one row's pairs, or quarantines it."""
        items = [item for item in self._read(origin) if not isinstance(item, Answer)]
        if items:
            self._settle([(item, origin) for item in items], rows=1)

    def take_group(self, origins: Sequence[Origin]) -> None:
        """Adds the pairs of rows that belong together, and of each what stands for itself."""
        answers: list[tuple[Answer, Origin]] = []
        for origin in origins:
            items = self._read(origin)
            own = [(item, origin) for item in items if not isinstance(item, Answer)]
            if own:
                self._settle(own, rows=1)
            answers += [(item, origin) for item in items if isinstance(item, Answer)]
        if answers:
            options = self.plan.layouts[origins[0].source][2]
            self._settle(join(answers, options), rows=len(answers))

    def _read(self, origin: Origin) -> Sequence[Item]:
        """What the row holds: an answer, or one item at least of other kinds; none if unusable."""
        self.ledger.count_in(origin.source)
        try:
            items = self.readers[origin.source](parsed(origin.raw))
        except Unusable as problem:
            self._drop(problem, origin)
            return ()
        assert items, "a layout returns items or raises Unusable"
        for item in items:
            if isinstance(item, Answer) and isinstance(item.score, bool):
                labels = self.labels.setdefault(origin.source, Counter())
                labels["good" if item.score else "bad"] += 1
        return items

    def _settle(self, items: Sequence[Joined], rows: int) -> None:
        """Adds pairs and drops the others; `rows` came in for them, and the ledger says how."""
        source = items[0][1].source
        if self.plan.ties == "keep":
            items = [
                (kept, origin)
                for item, origin in items
                for kept in (item.items() if isinstance(item, Tie) else [item])
            ]
        pairs = sum(item.pairs if isinstance(item, Unusable) else 1 for item, _ in items)
        if pairs > rows:
            self.ledger.count_added(source, pairs - rows)
        elif pairs < rows:
            self.ledger.drop(source, "joined", rows - pairs)
        for item, origin in items:
            try:
                if isinstance(item, Unusable):
                    raise item
                self._add(checked(item), origin)
            except Unusable as problem:
                self._drop(problem, origin)

    def _add(self, pair: Pair, origin: Origin) -> None:
        identity = identify(pair, self.plan.seed, self.plan.eval_fraction)
        notes = [*pair.notes, *signals(pair, identity.prompt, identity.chosen, identity.rejected)]
        if notes:
            self.notes.setdefault(origin.source, Counter()).update(notes)
        self.pairs.append(tables.pair_values(pair, identity, origin))
        self.keys.append(tables.key_values(pair, identity, self.numbers[origin.source]))

    def _drop(self, problem: Unusable, origin: Origin) -> None:
        self.ledger.drop(origin.source, problem.reason, problem.pairs)
        if problem.reason not in NOT_QUARANTINED:
            fault = problem.reason, problem.field, problem.message
            self.quarantine.add(origin.source, origin.file, origin.row, *fault, origin.raw)

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
        "examples": first_examples(shard.quarantine),
        "labels": {source: dict(c) for source, c in shard.labels.items()},
        "notes": {source: dict(sorted(c.items())) for source, c in shard.notes.items()},
    }
    workspace.finish(f"rows-{name}", summary)
    return summary


def _write_pairs(shard: _Shard, rows: Path, out: Path) -> None:
    passed_over = shard.plan.joined
    with pq.ParquetFile(rows) as file, tables.open_writer(out) as writer:
        if KEY in file.schema_arrow.names:
            for batch, group in enumerate(_groups(file), 1):
                shard.take_group(group)
                if batch % tables.BATCH_ROWS == 0:
                    writer.write_table(shard.table())
            writer.write_table(shard.table())
            return
        for batch in file.iter_batches(tables.BATCH_ROWS, columns=ROW_COLUMNS):
            columns = [batch.column(c).to_pylist() for c in ROW_COLUMNS]
            for origin in map(Origin, *columns):
                if origin.source not in passed_over:
                    shard.take(origin)
            writer.write_table(shard.table())


def _groups(file: pq.ParquetFile) -> Iterator[list[Origin]]:
    """The rows of a group shard, group by group: one group at a time is in memory."""

    def keyed() -> Iterator[tuple[bytes, Origin]]:
        for batch in file.iter_batches(tables.BATCH_ROWS, columns=[KEY, *ROW_COLUMNS]):
            columns = [batch.column(c).to_pylist() for c in (KEY, *ROW_COLUMNS)]
            for key, *origin in zip(*columns, strict=True):
                yield key, Origin(*origin)

    for _, members in groupby(keyed(), lambda row: (row[1].source, row[0])):
        yield [origin for _, origin in members]
