"""What is made of the rows of one shard, row by row, and what is counted on the way.

In:  rows, each with its origin, and the plan that says how their source is read.
Out: batches of pairs, a record per pair to find duplicates by, the quarantine, ledger and notes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.artifact import Ledger, Quarantine
from tasks.conversion.first_pass import tables
from tasks.conversion.first_pass.joining import Joined, Origin, join
from tasks.conversion.first_pass.raw_row import raw_row
from tasks.conversion.first_pass.stretches import stretches_of
from tasks.conversion.layouts import Readers
from tasks.conversion.layouts.columns import Row
from tasks.conversion.overrides import Action, overridden
from tasks.conversion.plan import Plan
from tasks.conversion.preference.answers import Answer, Item
from tasks.conversion.preference.identity import Identity, identify
from tasks.conversion.preference.pair import Pair, checked
from tasks.conversion.preference.signals import end_to_end, signals, turn_signals
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import NOT_QUARANTINED, Unusable


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
    decided: set[str] = field(default_factory=set[str])
    """The keys (`Identity.key`, in hex) that these pairs had before."""
    pairs: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    keys: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    stored: list[Identity] = field(default_factory=list[Identity])
    sources: list[str] = field(default_factory=list[str])
    key_arrays: list[npt.NDArray[Any]] = field(default_factory=list[npt.NDArray[Any]])
    hashes: list[npt.NDArray[Any]] = field(default_factory=list[npt.NDArray[Any]])
    """Of stretches of the prompts, in their order."""

    def __post_init__(self) -> None:
        self.readers = Readers(self.plan.layouts)
        self.numbers = {name: number for number, name in enumerate(self.plan.layouts)}

    def count(self, origins: Sequence[Origin]) -> None:
        """Books rows as come in; `take` or `take_group` says what became of them."""
        for source, n in Counter([origin.source for origin in origins]).items():
            self.ledger.count_in(source, n)

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
            return raw_row(origin.raw, origin.file)
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
        split = plan.seed, plan.held_out_of(origin.source), plan.split_by
        identity = identify(pair, *split)
        for known in (plan.overrides, plan.overrides_of_new_ids):
            if (action := known.get(identity.pair_id)) is None:
                break
            self.overridden.setdefault(action, Counter())[identity.pair_id] += 1
            self.decided.add(identity.key.hex())
            pair = overridden(pair, action, plan.ties)
            identity = identify(pair, *split)
        if pair.notes:
            self.note(origin.source, pair.notes)
        self.sources.append(origin.source)
        self.stored.append(identity)
        self.pairs.append(tables.pair_values(pair, identity, origin))
        self.keys.append(tables.key_values(pair, identity, self.numbers[origin.source]))

    def note(self, source: str, notes: Iterable[str]) -> None:
        """Counts notes on pairs of a source."""
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
        noted = signals(*end_to_end(texts), levels, self._sides)
        noted += turn_signals(texts, self._sides)
        for place, note in noted:
            self.note(self.sources[place], (note,))
        records = tables.key_array(self.keys)
        turns = [each.turns for each in self.stored]
        hashes, records["stretches"] = stretches_of(turns, records["eval"])
        self.key_arrays.append(records)
        self.hashes.append(hashes)
        batch = tables.record_batch(self.pairs)
        self.pairs, self.keys, self.stored, self.sources = [], [], [], []
        return batch

    def _sides(self, place: int) -> tuple[bytes | None, bytes, bytes]:
        stored = self.stored[place]
        return stored.prompt, stored.chosen, stored.rejected
