"""What is made of the rows of one shard, row by row, and what is counted on the way.

In:  rows, each with its origin, and the plan that says how their source is read.
Out: batches of pairs, a record per pair to find duplicates by, the quarantine, ledger and notes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from tasks.artifact import Ledger, Quarantine
from tasks.conversion import tables
from tasks.conversion.answers import Answer, Item
from tasks.conversion.characters import Levels
from tasks.conversion.identity import Identity, identify, pair_id_of
from tasks.conversion.joining import Joined, Origin, join
from tasks.conversion.layouts import LAYOUTS, reader
from tasks.conversion.layouts.columns import Row
from tasks.conversion.options import Options
from tasks.conversion.overrides import Action, overridden
from tasks.conversion.pair import Pair, checked
from tasks.conversion.row_batches import origins, runs
from tasks.conversion.signals import signals
from tasks.conversion.ties import Tie, Ties
from tasks.conversion.unusable import NOT_QUARANTINED, Unusable, found
from tasks.conversion.usual import Usual, usual_rows
from tasks.conversion.usual_pairs import usual_pairs

WITHOUT_USUAL = 256
"""So many rows without a usual one among them tell that a source has none."""


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
class ShardPairs:
    """What has been made of one shard so far."""

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
        # A usual row has its columns under their own names, and nothing else is asked for.
        self.sides = {
            name: None if mapping or options.model_fields_set else LAYOUTS[layout].sides
            for name, (layout, mapping, options) in layouts.items()
        }
        self.numbers = {name: number for number, name in enumerate(layouts)}

    def count(self, origins: Sequence[Origin]) -> None:
        """Books rows as come in; `take` or `take_group` says what became of them."""
        for source, n in Counter([origin.source for origin in origins]).items():
            self.ledger.count_in(source, n)

    def take_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The pairs of some rows, in their order; rows of sources that are joined are passed over.

        What is usual goes by columns, the rest row by row.
        """
        taken = [self._taken(*run) for run in runs(rows) if run[0] not in self.plan.joined]
        return taken[0] if len(taken) == 1 else pa.concat_batches([tables.record_batch([]), *taken])

    def _taken(self, source: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The pairs of rows of one source."""
        self.ledger.count_in(source, rows.num_rows)
        usual, levels, others = self._told_apart(rows, source)
        if not usual:
            for origin in origins(rows):
                self.take(origin)
            return self.batch()
        pairs, records = self._usual(usual, levels, rows, source)
        if not others:
            self.key_arrays.append(records)
            return pairs
        places = [each.place for each in usual]
        for place, origin in zip(others, origins(rows.take(pa.array(others))), strict=True):
            before = len(self.pairs)
            self.take(origin)
            places += [place] * (len(self.pairs) - before)
        both = pa.concat_batches([pairs, self.batch()])
        order = np.argsort(np.array(places, np.int64), kind="stable")
        self.key_arrays[-1] = np.concatenate([records, self.key_arrays[-1]])[order]
        return both.take(pa.array(order))

    def _told_apart(
        self, rows: pa.RecordBatch, source: str
    ) -> tuple[list[Usual], Levels, list[int]]:
        """The usual rows with the levels of their texts, and the places of all others, among them
        those of which a person has decided."""
        sides = self.sides[source]
        if sides is None:
            return [], np.zeros(0, np.int8), []
        raws = rows.column("raw").cast(pa.binary()).to_pylist()
        usual, levels, others = usual_rows(raws, sides)
        if not usual and len(raws) >= WITHOUT_USUAL:
            self.sides[source] = None  # a source of another kind: not asked again
        if not self.plan.overrides:
            return usual, levels, others
        decided = np.array([pair_id_of(each.text) in self.plan.overrides for each in usual], bool)
        others = sorted([*others, *(usual[i].place for i in np.flatnonzero(decided))])
        return [usual[i] for i in np.flatnonzero(~decided)], levels[~decided], others

    def _usual(
        self, usual: Sequence[Usual], levels: Levels, rows: pa.RecordBatch, source: str
    ) -> tuple[pa.RecordBatch, npt.NDArray[Any]]:
        """The pairs of usual rows, and their records."""
        every = len(usual) == rows.num_rows
        of_usual = rows if every else rows.take(pa.array([each.place for each in usual]))
        plan, number = self.plan, self.numbers[source]
        made = usual_pairs(usual, of_usual, number, plan.seed, plan.eval_fraction)
        texts = [each.text for each in usual]
        for _, note in signals(texts, levels, lambda i: usual[i][1:4]):
            self._note(source, (note,))
        return made

    def take(self, origin: Origin) -> None:
        """Adds one row's pairs, or quarantines it."""
        row = self._parsed(origin)
        if row is None:
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
        texts = [each.text for each in self.stored]
        levels = np.array([each.level for each in self.stored], np.int8)
        for place, note in signals(texts, levels, self._sides):
            self._note(self.sources[place], (note,))
        self.key_arrays.append(tables.key_array(self.keys))
        batch = tables.record_batch(self.pairs)
        self.pairs, self.keys, self.stored, self.sources = [], [], [], []
        return batch

    def _sides(self, place: int) -> tuple[bytes | None, bytes, bytes]:
        stored = self.stored[place]
        return stored.prompt, stored.chosen, stored.rejected


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
