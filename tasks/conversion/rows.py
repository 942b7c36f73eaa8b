"""Pass 1: the rows of one ingestion shard become pairs.

In:  rows/NNNNN.parquet (source, file, row, raw), of which the rows of sources that are joined are
     passed over; or a shard of the latter, laid out by `groups` so that what belongs together
     stands together (with a column `key`).
Out: the shard's pairs before duplicates are taken out, a small record per pair that finds the
     duplicates, the quarantined rows, and a summary: ledger, first examples, notes.
"""

import gc
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Ledger, Quarantine, Workspace
from tasks.conversion import shards, tables
from tasks.conversion.answers import Answer, Item
from tasks.conversion.identity import Identity, identify, identify_usual
from tasks.conversion.joining import Joined, Origin, join
from tasks.conversion.layouts import LAYOUTS, reader
from tasks.conversion.layouts.columns import Row
from tasks.conversion.options import Options
from tasks.conversion.overrides import Action, overridden
from tasks.conversion.pair import Pair, checked
from tasks.conversion.signals import signals
from tasks.conversion.ties import Tie, Ties
from tasks.conversion.tolerance import first_examples
from tasks.conversion.unusable import NOT_QUARANTINED, Unusable, found
from tasks.conversion.usual import PLAIN, is_usual, longer_by

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
    overrides: Mapping[str, Action] = field(default_factory=dict[str, Action])
    """pair_id -> what a person decided."""

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
    overridden: dict[Action, Counter[str]] = field(default_factory=dict[Action, Counter[str]])
    """Action -> the pairs that it was applied to, by id."""
    pairs: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    keys: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    stored: list[Identity] = field(default_factory=list[Identity])
    sources: list[str] = field(default_factory=list[str])
    key_arrays: list[npt.NDArray[Any]] = field(default_factory=list[npt.NDArray[Any]])

    def __post_init__(self) -> None:
        layouts = self.plan.layouts
        self.readers = {name: reader(*layout) for name, layout in layouts.items()}
        # A usual row is one of a layout without options whose columns have their own names.
        self.sides = {
            name: None if mapping else LAYOUTS[layout].sides
            for name, (layout, mapping, _) in layouts.items()
        }
        self.numbers = {name: number for number, name in enumerate(layouts)}

    def count(self, origins: Sequence[Origin]) -> None:
        """Books rows as come in; `take` or `take_group` says what became of them."""
        for source, n in Counter([origin.source for origin in origins]).items():
            self.ledger.count_in(source, n)

    def take(self, origin: Origin) -> None:
        """Adds one row's pairs, or quarantines it."""
        row = self._parsed(origin)
        if row is None:
            return
        sides = self.sides[origin.source]
        if sides is not None and (given := sides(row)) is not None and self._usual(*given, origin):
            return
        items = self._read(row, origin)
        if len(items) == 1 and type(items[0]) is Pair:  # the usual row
            try:
                self._add(checked(items[0]), origin)
            except Unusable as problem:
                self._drop(problem, origin)
            return
        items = [item for item in items if not isinstance(item, Answer)]
        if items:
            self._settle([(item, origin) for item in items], rows=1)

    def take_group(self, origins: Sequence[Origin]) -> None:
        """Adds the pairs of rows that belong together, and of each what stands for itself."""
        answers: list[tuple[Answer, Origin]] = []
        for origin in origins:
            row = self._parsed(origin)
            items = () if row is None else self._read(row, origin)
            own = [(item, origin) for item in items if not isinstance(item, Answer)]
            if own:
                self._settle(own, rows=1)
            answers += [(item, origin) for item in items if isinstance(item, Answer)]
        if answers:
            options = self.plan.layouts[origins[0].source][2]
            self._settle(join(answers, options), rows=len(answers))

    def _parsed(self, origin: Origin) -> Row | None:
        try:
            return parsed(origin.raw)
        except Unusable as problem:
            self._drop(problem, origin)
            return None

    def _read(self, row: Row, origin: Origin) -> Sequence[Item]:
        """What the row holds: an answer, or one item at least of other kinds; none if unusable."""
        try:
            items = self.readers[origin.source](row)
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

    def _usual(self, prompt: Any, chosen: Any, rejected: Any, origin: Origin) -> bool:
        """Adds a pair that is canonical as it stands; false where it has to be looked at."""
        if not is_usual(prompt, chosen, rejected):
            return False
        plan = self.plan
        identity = identify_usual(prompt, chosen, rejected, plan.seed, plan.eval_fraction)
        if identity is None or identity.pair_id in plan.overrides:
            return False
        self._store(PLAIN, identity, origin, longer_by(chosen, rejected))
        return True

    def _add(self, pair: Pair, origin: Origin) -> None:
        plan = self.plan
        identity = identify(pair, plan.seed, plan.eval_fraction)
        action = plan.overrides.get(identity.pair_id)
        if action is not None:
            self.overridden.setdefault(action, Counter())[identity.pair_id] += 1
            pair = overridden(pair, action, plan.ties)
            identity = identify(pair, plan.seed, plan.eval_fraction)
        if pair.notes:
            self._note(origin.source, pair.notes)
        self._store(pair, identity, origin, tables.longer_by(pair))

    def _store(self, pair: Pair, identity: Identity, origin: Origin, longer: int) -> None:
        source = origin.source
        self.sources.append(source)
        self.stored.append(identity)
        self.pairs.append(tables.pair_values(pair, identity, origin))
        self.keys.append(tables.key_values(pair, identity, self.numbers[source], longer))

    def _note(self, source: str, notes: Iterable[str]) -> None:
        self.notes.setdefault(source, Counter()).update(notes)

    def _drop(self, problem: Unusable, origin: Origin) -> None:
        self.ledger.drop(origin.source, problem.reason, problem.pairs)
        if problem.reason not in NOT_QUARANTINED:
            fault = problem.reason, problem.field, problem.message
            self.quarantine.add(origin.source, origin.file, origin.row, *fault, origin.raw)

    def batch(self) -> pa.RecordBatch:
        """The pairs since the last call, after which they are noted and keyed as well."""
        for place, note in signals(self.stored):
            self._note(self.sources[place], (note,))
        self.key_arrays.append(tables.key_array(self.keys))
        batch = tables.record_batch(self.pairs)
        self.pairs, self.keys, self.stored, self.sources = [], [], [], []
        return batch


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


def rows_unit(path: Path) -> str:
    """The unit of a shard's first pass."""
    return f"rows-{path.stem}"


def convert_shard(
    workspace: Workspace, path: Path, plan: Plan
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Writes what the shard's rows become; its summary, which is kept as the unit's, and the
    quarantined rows."""
    shard = _Shard(plan)
    name = path.stem
    with workspace.writing(f"{shards.RAW_PAIRS}/{name}.arrow") as out, uncollected():
        _write_pairs(shard, path, out)
    with workspace.writing(f"{shards.KEY_ARRAYS}/{name}.npy") as out, out.open("wb") as stream:
        np.save(stream, np.concatenate(shard.key_arrays))
    with workspace.writing(f"{shards.QUARANTINES}/{name}.parquet") as out:
        shard.quarantine.write(out)
    summary = {
        "ledger": shard.ledger.to_json(),
        "examples": first_examples(shard.quarantine),
        "labels": {source: dict(c) for source, c in shard.labels.items()},
        "notes": {source: dict(sorted(c.items())) for source, c in shard.notes.items()},
        "overridden": {action: dict(sorted(c.items())) for action, c in shard.overridden.items()},
    }
    workspace.finish(rows_unit(path), summary)
    return summary, shard.quarantine.rows


@contextmanager
def uncollected() -> Generator[None, None, None]:
    """Without the search for cycles, of which rows have none: it costs a tenth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _write_pairs(shard: _Shard, rows: Path, out: Path) -> None:
    """As Arrow: read once more and gone with the scratch, so that compressing it would not pay."""
    with pq.ParquetFile(rows) as file, pa.ipc.new_file(out, tables.SCHEMA) as writer:
        if KEY in file.schema_arrow.names:
            for number, group in enumerate(_groups(file), 1):
                shard.count(group)
                shard.take_group(group)
                if number % tables.BATCH_ROWS == 0:
                    writer.write_batch(shard.batch())
        else:
            passed_over = shard.plan.joined
            for batch in file.iter_batches(
                tables.BATCH_ROWS, columns=ROW_COLUMNS, use_threads=False
            ):
                columns = [batch.column(c).to_pylist() for c in ROW_COLUMNS]
                rows_read = map(Origin, *columns)
                origins = [o for o in rows_read if o.source not in passed_over]
                shard.count(origins)
                for origin in origins:
                    shard.take(origin)
                writer.write_batch(shard.batch())
        writer.write_batch(shard.batch())


def _groups(file: pq.ParquetFile) -> Iterator[list[Origin]]:
    """The rows of a group shard, group by group: one group at a time is in memory."""

    def keyed() -> Iterator[tuple[bytes, Origin]]:
        for batch in file.iter_batches(tables.BATCH_ROWS, columns=[KEY, *ROW_COLUMNS]):
            columns = [batch.column(c).to_pylist() for c in (KEY, *ROW_COLUMNS)]
            for key, *origin in zip(*columns, strict=True):
                yield key, Origin(*origin)

    for _, members in groupby(keyed(), lambda row: (row[1].source, row[0])):
        yield [origin for _, origin in members]
