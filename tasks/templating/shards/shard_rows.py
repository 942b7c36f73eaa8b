"""The rows of one shard, batch by batch, as rendered texts.

In:  record batches of conversion's pairs.
Out: record batches of `SCHEMA`; the ledger and the quarantine are kept on the way.

    batch ─┬─ plain rows of structures that are known ─ `Columns` ─ joined all together ─┬─ table
           └─ all others ─ `RowByRow` ─ replayed or rendered, and learned from ──────────┘

The first rows, every 997th and the first joined one of each shape are rendered both ways.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tasks.artifact import Ledger, Quarantine
from tasks.conversion.unusable import Unusable
from tasks.templating.renderer import Renderer
from tasks.templating.replay.replaying import Replayer
from tasks.templating.shards.batch import IMAGES, SCHEMA, Batch
from tasks.templating.shards.columns import Columns
from tasks.templating.shards.joined import Joined
from tasks.templating.shards.row_by_row import Differs, RowByRow

SAMPLE_FIRST, SAMPLE_EVERY = 2, 997


class Renderers(NamedTuple):
    """What renders rows, for all shards of a process: each structure is found out once."""

    renderer: Renderer
    replayer: Replayer
    columns: Columns


class ShardRows(RowByRow):
    """Renders the batches of one shard.

    What the renderers find out of the template serves the next shards, too. `strict`: rows with
    other templates' delimiters in their texts are left out.
    """

    def __init__(
        self,
        renderers: Renderers,
        accounts: tuple[Ledger, Quarantine],
        *,
        strict: bool,
        replaying: bool,
        pictured: bool,
    ) -> None:
        renderer, replayer, self.columns = renderers
        options = {"strict": strict, "replaying": replaying, "pictured": pictured}
        super().__init__(renderer, replayer, accounts, **options)
        self.schema = SCHEMA.append(IMAGES) if pictured else SCHEMA
        self.seen = 0

    def rendered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can be used, as `schema` has them.

        Raises:
            Differs, Pictured: the shard has to be rendered anew.
        """
        batch = Batch.of(rows)
        sampled = self._sampled(rows.num_rows)
        joined = self.columns.joined(batch) if self.replaying else None
        if joined is None:
            self.one_by_one(batch, sampled)
        else:
            self._in_columns(batch, joined, sampled)
        self.seen += rows.num_rows
        table = batch.table(self.schema)
        self._count(rows["source"], table["source"])
        return table

    def _in_columns(self, batch: Batch, joined: Joined, sampled: Collection[int]) -> None:
        """Takes the rows that are joined, and renders the others."""
        left = np.flatnonzero(~joined.mask)
        others = batch.part(left)
        self.one_by_one(others, [n for n, row in enumerate(left.tolist()) if row in sampled])
        kept, texts = joined.with_others(left[others.kept], others.both_texts())
        batch.adopt(kept.tolist(), texts, others, left)
        self.replayed += int(joined.mask.sum())
        for row in {*joined.first.values(), *(row for row in sampled if joined.mask[row])}:
            self.replayed -= 1
            self._compare(batch, row)
        self.columns.compared |= joined.first.keys()

    def _compare(self, batch: Batch, row: int) -> None:
        """Renders a row that was joined by the template itself, too.

        Raises:
            Differs: to another text.
        """
        try:
            sides = self.renderer.sides(batch.row(row))
        except Unusable:
            raise Differs from None
        place = batch.kept.index(row)
        for side, texts in zip(sides, batch.arrays[0], strict=True):
            if side.literals or side.text != texts[place].as_py():
                raise Differs

    def _sampled(self, count: int) -> Collection[int]:
        """The rows of a batch that are rendered both ways."""
        number = self.seen + 1  # of the first one, in the shard
        first = range(min(count, max(0, SAMPLE_FIRST + 1 - number)))
        return {*first, *range(-number % SAMPLE_EVERY, count, SAMPLE_EVERY)}

    def _count(self, came: pa.Array, went: pa.Array) -> None:
        for source, count in _counts(came):
            self.ledger.count_in(source, count)
        for source, count in _counts(went):
            self.ledger.count_out(source, count)


def _counts(column: pa.Array) -> list[tuple[str, int]]:
    """How often each value stands in a column, first come first."""
    return [(str(v["values"]), int(v["counts"])) for v in column.value_counts().to_pylist()]
