"""Two ways in which rows become pairs: usual rows in columns, all others one by one.

    rows of one source ─┬─ usual rows ─ `UsualPairs` ─ pairs, records, stretches ─┐
                        └─ all others ─ `ShardPairs.take` ─ `ShardPairs.batch` ───┴─ in row order

For a usual row both give the same result. The slow lane (`ShardPairs`) defines what is right; the
fast one takes only rows that need none of its checks.
"""

from collections import Counter

import numpy as np
import pyarrow as pa

from tasks.conversion.first_pass import tables
from tasks.conversion.first_pass.parts import PartsOf, parts_of
from tasks.conversion.first_pass.row_batches import (
    ORIGIN_COLUMNS,
    in_this_order,
    origins,
    pieces,
    runs,
)
from tasks.conversion.first_pass.shard_pairs import ShardPairs
from tasks.conversion.first_pass.stretches import in_order
from tasks.conversion.first_pass.usual_pairs import PIECE_ROWS, UsualPairs

ASKED_ROWS, WORTH_ROWS = 256, 8
"""After `ASKED_ROWS` rows of a source, the fast lane is no longer tried for it unless at least one
row in `WORTH_ROWS` was usual."""


class Lanes:
    """Sends the rows of one shard through the fast lane or the slow one."""

    def __init__(self, shard: ShardPairs) -> None:
        self._shard = shard
        self._parts: dict[str, PartsOf | None] = {}
        """By source; None: the fast lane is not tried."""
        self._asked, self._found = Counter[str](), Counter[str]()
        """By source: rows that the fast lane was tried for, and the usual ones among them."""

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The pairs of rows, in row order; skips rows of sources whose rows are joined."""
        joined = self._shard.plan.joined
        batches = [self._taken(*run) for run in runs(rows) if run[0] not in joined]
        if len(batches) == 1:
            return batches[0]
        return pa.concat_batches([tables.record_batch([]), *batches])

    def _taken(self, source: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The pairs of rows of one source."""
        shard = self._shard
        shard.ledger.count_in(source, rows.num_rows)
        usual = self._usual(source, rows)
        if usual is None:
            for origin in origins(rows):
                shard.take(origin)
            return shard.batch()
        if usual.notes:
            shard.note(source, usual.notes)
        of_usual = in_this_order(rows.select(ORIGIN_COLUMNS), np.array(usual.places))
        pairs, records, hashes = usual.batch(of_usual, shard.numbers[source])
        if not usual.others:
            shard.key_arrays.append(records)
            shard.hashes.append(hashes)
            return pairs
        places = [*usual.places, *self._others(rows, sorted(usual.others))]
        more = shard.batch()
        order = np.argsort(np.array(places, np.int64), kind="stable")
        records = np.concatenate([records, shard.key_arrays[-1]])
        hashes = np.concatenate([hashes, shard.hashes[-1]])
        shard.hashes[-1] = in_order(hashes, records["stretches"], order)
        shard.key_arrays[-1] = records[order]
        return in_this_order(pairs, order, more) if len(more) else pairs

    def _others(self, rows: pa.RecordBatch, places: list[int]) -> list[int]:
        """Sends the rows at these places through the slow lane; for each pair, its row's place."""
        row_places: list[int] = []
        left_over = origins(in_this_order(rows, np.array(places)))
        for place, origin in zip(places, left_over, strict=True):
            before = len(self._shard.pairs)
            self._shard.take(origin)
            row_places += [place] * (len(self._shard.pairs) - before)
        return row_places

    def _usual(self, source: str, rows: pa.RecordBatch) -> UsualPairs | None:
        """What the fast lane makes of these rows; None where none of them is usual."""
        plan = self._shard.plan
        if source not in self._parts:
            layout, mapping, options = plan.layouts[source]
            read = self._shard.readers[source]
            self._parts[source] = parts_of(layout, bool(mapping), options, read)
        parts = self._parts[source]
        if parts is None:
            return None
        usual = UsualPairs(parts, plan, plan.held_out_of(source))
        for first, raws in pieces(rows, PIECE_ROWS):
            if self._parts[source] is None:
                usual.others += range(first, rows.num_rows)
                break
            before = len(usual.places)
            usual.take(raws, first)
            self._count(source, len(raws), len(usual.places) - before)
        return usual if usual.places else None

    def _count(self, source: str, asked: int, usual: int) -> None:
        """Counts rows; gives up the fast lane for a source with few usual ones."""
        self._asked[source] += asked
        self._found[source] += usual
        if ASKED_ROWS <= self._asked[source] > self._found[source] * WORTH_ROWS:
            self._parts[source] = None
