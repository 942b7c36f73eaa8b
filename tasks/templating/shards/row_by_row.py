"""Rows rendered one by one, most of them by replaying: those that are not joined in columns.

In:  a batch of conversion's pairs.
Out: which of them are kept, with their texts; ledger and quarantine are updated on the way.

Rows are processed in pieces that stay in the processor's cache; no Python object is made for a row
that is replayed.

    stretch   . . . . o . . . m . . . . . . s . .      odd, marked by a delimiter, sampled
              └─────┘   └───┘   └─────────┘   └─┘      replayed, but for what is new in them
"""

import json
from collections import Counter
from collections.abc import Collection

from tasks.artifact import Ledger, Quarantine
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, shown
from tasks.templating.limits import MOST_TIMEOUTS
from tasks.templating.parts import with_image_parts
from tasks.templating.renderer import Renderer
from tasks.templating.replay.conversations import Plain, Side, conversations_of
from tasks.templating.replay.delimiters import delimiters_in, rows_to_search
from tasks.templating.replay.piece import Piece
from tasks.templating.replay.plain_texts import PlainTexts
from tasks.templating.replay.replaying import Replayer
from tasks.templating.shards.batch import TEXTS, Batch


class Differs(Exception):
    """A replayed text is not the template's."""


class Pictured(Exception):
    """A row has images, and the table no column for them."""


class RowByRow:
    """Renders the rows of one shard, and keeps its ledger and quarantine."""

    def __init__(
        self,
        renderer: Renderer,
        replayer: Replayer,
        accounts: tuple[Ledger, Quarantine],
        *,
        strict: bool,
        replaying: bool,
        pictured: bool,
    ) -> None:
        self.ledger, self.quarantine = accounts
        self.strict = strict
        self.renderer, self.replayer = renderer, replayer
        self.replaying = replaying and replayer.tracer is not None
        self.plain_texts = PlainTexts(renderer) if replaying else None
        self.pictured = pictured
        self.delimiters: Counter[str] = Counter()
        self.replayed = self.images = 0

    def one_by_one(self, batch: Batch, sampled: Collection[int]) -> None:
        """Renders the batch's rows; the `sampled` ones both ways.

        Raises:
            Differs, Pictured: the shard has to be rendered anew.
        """
        start = 0
        for piece in batch.pieces():
            stretch = range(start, start + piece.count)
            self._stretch(batch, stretch, piece, {n - start for n in sampled if n in stretch})
            batch.gather()
            start = stretch.stop

    def _stretch(self, batch: Batch, rows: range, piece: Piece, sampled: Collection[int]) -> None:
        """Renders the rows of one piece: all are replayed but those that need the renderer."""
        marked = rows_to_search(piece)
        plain, odd = self._plain(batch, rows, piece)
        done = 0
        for stop in sorted({*odd, *marked, *sampled}):
            self._replay(batch, rows, plain, done, stop)
            if stop in marked and not self._allowed(batch, rows[stop]):
                pass
            elif rows[stop] in batch.texts_alone:
                self._close(batch, rows[stop], piece.row(stop), sampled=stop in sampled)
            elif stop in odd:
                self._render(batch, rows[stop])
            elif stop in sampled:
                known = self.replayer.known(plain, stop)
                self._render(batch, rows[stop], plain.sides(stop), known)
            else:
                self._replay(batch, rows, plain, stop, stop + 1)
            done = stop + 1
        self._replay(batch, rows, plain, done, len(rows))

    def _plain(self, batch: Batch, rows: range, piece: Piece) -> tuple[Plain, Collection[int]]:
        """The rows of a piece that may be replayed, and those that may not."""
        apart = {n - rows.start for n in batch.apart.intersection(rows)}
        if not self.replaying or len(apart) == len(rows):
            return Plain.nothing(piece), range(len(rows))
        turns = conversations_of(piece, apart)
        odd = set(turns.odd)
        if self.renderer.special:
            odd |= turns.suspicious(self.renderer.special, piece)
        tools, settings = (values[rows.start : rows.stop] for values in batch.settings)
        return Plain(piece, turns, tools, settings), odd

    def _replay(self, batch: Batch, rows: range, plain: Plain, start: int, stop: int) -> None:
        """Replays rows; what is new among them is rendered by the template, and learned from."""
        while start < stop:
            end = self.replayer.replay(plain, start, stop, batch.texts)
            batch.kept += rows[start:end]
            self.replayed += end - start
            if end < stop:
                self._render(batch, rows[end], plain.sides(end))
            start = end + 1

    def _close(self, batch: Batch, place: int, stored: bytes, *, sampled: bool) -> None:
        """Adds the EOS to the texts of one row, or leaves the row to the renderer if need be."""
        texts = self.plain_texts.closed(stored) if self.plain_texts else None
        if texts is None or sampled:
            self._render(batch, place, known=texts)
        else:
            batch.keep(place, texts)

    def _render(
        self,
        batch: Batch,
        place: int,
        sides: tuple[Side, ...] = (),
        known: tuple[str, str] | None = None,
    ) -> None:
        """Renders one row by the template itself, and learns how its plain `sides` are rendered.

        Raises:
            Differs: a quicker way has other texts (`known`), or has some where there are none.
            Pictured: the row has images, and the table no column for them.
        """
        row = batch.row(place)
        try:
            row = with_image_parts(row)
            rendered = self.renderer.sides(row)
        except Unusable as bad:
            if known is not None:
                raise Differs from None
            self._drop(batch, place, bad)
            return
        texts = (rendered[0].text, rendered[1].text)
        if known is not None and known != texts:
            raise Differs
        if row["images"] is not None:
            self._picture(batch, row["images"])
        for side, whole in zip(sides, rendered, strict=False):
            if not whole.literals and self.replayer.text(side) is None:
                self.replayer.learn(side, whole.text)
        if rendered[0].literals or rendered[1].literals:
            batch.literals[len(batch.kept)] = rendered
        batch.keep(place, texts)

    def _picture(self, batch: Batch, images: str) -> None:
        if not self.pictured:
            raise Pictured
        batch.pictures[len(batch.kept)] = images
        self.images += 1

    def _allowed(self, batch: Batch, place: int) -> bool:
        """Counts other templates' delimiters in a row; returns whether the row may be kept."""
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
