"""The rows of one shard, batch by batch, as rendered texts.

In:  record batches of conversion's pairs.
Out: record batches of `SCHEMA`; the ledger and the quarantine are kept on the way.

Rows go in stretches that stay in the processor's cache; those that are replayed are never made
into objects of their own. The first rows and every 997th are rendered both ways.

    stretch   . . . . o . . . m . . . . . . s . .      odd, marked by a delimiter, sampled
              └─────┘   └───┘   └─────────┘   └─┘      replayed, but for what is new in them
"""

import json
from collections import Counter
from collections.abc import Collection

import pyarrow as pa

from tasks.artifact import Ledger, Quarantine
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, shown
from tasks.templating.batch import IMAGES, SCHEMA, TEXTS, Batch
from tasks.templating.conversations import Plain, Side, conversations_of
from tasks.templating.delimiters import delimiters_in, rows_to_ask
from tasks.templating.limits import MOST_TIMEOUTS
from tasks.templating.pictures import with_image_parts
from tasks.templating.piece import Piece
from tasks.templating.renderer import Renderer
from tasks.templating.replaying import Replayer

SAMPLE_FIRST, SAMPLE_EVERY = 4, 997


class Differs(Exception):
    """A replayed text is not the template's."""


class Pictured(Exception):
    """A row has images, and the table no column for them."""


class ShardRows:
    """Renders the batches of one shard, and keeps its accounts.

    What the renderers find out of the template serves the next shards, too. `strict`: rows with
    other templates' delimiters in their texts are left out.
    """

    def __init__(
        self,
        renderers: tuple[Renderer, Replayer],
        accounts: tuple[Ledger, Quarantine],
        *,
        strict: bool,
        replaying: bool,
        pictured: bool,
    ) -> None:
        self.ledger, self.quarantine = accounts
        self.strict = strict
        self.renderer, self.replayer = renderers
        self.replaying = replaying and self.replayer.tracer is not None
        self.pictured = pictured
        self.schema = SCHEMA.append(IMAGES) if pictured else SCHEMA
        self.delimiters: Counter[str] = Counter()
        self.replayed = self.seen = self.images = 0

    def rendered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can be used, as `schema` has them.

        Raises:
            Differs, Pictured: the shard has to be rendered anew.
        """
        batch = Batch.of(rows)
        start = 0
        for piece in batch.pieces():
            stretch = range(start, start + piece.count)
            self._stretch(batch, stretch, piece)
            batch.gather()
            start = stretch.stop
        self.seen += rows.num_rows
        table = batch.table(self.schema)
        self._count(rows["source"], table["source"])
        return table

    def _stretch(self, batch: Batch, rows: range, piece: Piece) -> None:
        """Renders some rows: those between the ones that need a look are replayed."""
        marked, sampled = rows_to_ask(piece), self._sampled(rows)
        plain, odd = self._plain(batch, rows, piece)
        done = 0
        for stop in sorted({*odd, *marked, *sampled}):
            self._replay(batch, rows, plain, done, stop)
            if stop in marked and not self._allowed(batch, rows[stop]):
                pass
            elif stop in odd:
                self._look(batch, rows[stop])
            elif stop in sampled:
                known = self.replayer.known(plain, stop)
                self._look(batch, rows[stop], plain.sides(stop), known)
            else:
                self._replay(batch, rows, plain, stop, stop + 1)
            done = stop + 1
        self._replay(batch, rows, plain, done, len(rows))

    def _plain(self, batch: Batch, rows: range, piece: Piece) -> tuple[Plain, Collection[int]]:
        """What of a stretch may be replayed, and the rows that may not."""
        apart = {n - rows.start for n in batch.apart.intersection(rows)}
        if not self.replaying or len(apart) == len(rows):
            return Plain.nothing(piece), range(len(rows))
        turns = conversations_of(piece, apart)
        odd = set(turns.odd)
        if self.renderer.special:
            odd |= turns.suspicious(self.renderer.special, piece)
        tools, settings = (values[rows.start : rows.stop] for values in batch.settings)
        return Plain(piece, turns, tools, settings), odd

    def _sampled(self, rows: range) -> Collection[int]:
        """The rows of a stretch that are rendered both ways."""
        number = self.seen + rows.start + 1  # of the first one, in the shard
        first = range(min(len(rows), max(0, SAMPLE_FIRST + 1 - number)))
        return {*first, *range(-number % SAMPLE_EVERY, len(rows), SAMPLE_EVERY)}

    def _replay(self, batch: Batch, rows: range, plain: Plain, start: int, stop: int) -> None:
        """Replays rows; what is new among them is rendered by the template, and learned from."""
        while start < stop:
            end = self.replayer.replay(plain, start, stop, batch.texts)
            batch.kept += rows[start:end]
            self.replayed += end - start
            if end < stop:
                self._look(batch, rows[end], plain.sides(end))
            start = end + 1

    def _look(
        self,
        batch: Batch,
        place: int,
        sides: tuple[Side, ...] = (),
        known: tuple[str, str] | None = None,
    ) -> None:
        """Renders one row by the template itself, and learns from it where it is plain."""
        row = batch.row(place)
        try:
            row = with_image_parts(row)
            found = self.renderer.sides(row)
        except Unusable as bad:
            self._drop(batch, place, bad)
            return
        texts = (found[0].text, found[1].text)
        if known is not None and known != texts:
            raise Differs
        if row["images"] is not None:
            self._picture(batch, row["images"])
        for side, whole in zip(sides, found, strict=False):
            if not whole.literals and self.replayer.text(side) is None:
                self.replayer.learn(side, whole.text)
        if found[0].literals or found[1].literals:
            batch.literals[len(batch.kept)] = found
        batch.keep(place, texts)

    def _picture(self, batch: Batch, images: str) -> None:
        if not self.pictured:
            raise Pictured
        batch.pictures[len(batch.kept)] = images
        self.images += 1

    def _allowed(self, batch: Batch, place: int) -> bool:
        """Counts other templates' delimiters in a row; whether it may stay."""
        found = delimiters_in(*batch.stored(place))
        self.delimiters.update(found)
        if not found or not self.strict:
            return True
        message = (
            f"the text holds {', '.join(map(shown, sorted(found)))}, which templates mark turns "
            "with; mend the row, or set templating.delimiters_in_text: count"
        )
        self._drop(batch, place, Unusable("delimiter_in_text", "prompt", message))
        return False

    def _count(self, came: pa.Array, went: pa.Array) -> None:
        for source, count in _counts(came):
            self.ledger.count_in(source, count)
        for source, count in _counts(went):
            self.ledger.count_out(source, count)

    def _drop(self, batch: Batch, place: int, bad: Unusable) -> None:
        row = batch.rows.slice(place, 1).to_pylist()[0]
        self.ledger.drop(row["source"], bad.reason)
        raw = json.dumps({n: row[n] for n in TEXTS})
        origin = (row["source"], row["file"], row["row"])
        self.quarantine.add(*origin, bad.reason, bad.field, bad.message, raw)
        timeouts = sum(a.dropped["template_timeout"] for a in self.ledger.accounts.values())
        if timeouts > MOST_TIMEOUTS:
            raise DataError(
                f"templating: {timeouts} rows were too much for the chat template, the last "
                f"{row['file']} row {row['row']}: {bad.message}"
            )


def _counts(column: pa.Array) -> list[tuple[str, int]]:
    """How often each value stands in a column, first come first."""
    return [(str(v["values"]), int(v["counts"])) for v in column.value_counts().to_pylist()]
