"""The rows of one shard, batch by batch, as rendered texts.

In:  record batches of conversion's pairs.
Out: record batches of `SCHEMA`; the ledger and the quarantine are kept on the way.

Rows go by columns; those that are replayed are never made into objects. The first rows and every
997th are rendered both ways.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tasks.artifact import Ledger, Quarantine
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, shown
from tasks.templating.batch import CARRIED, IMAGES, SCHEMA, TEXTS, Batch, as_type
from tasks.templating.delimiters import delimiters_in, rows_to_ask
from tasks.templating.limits import LENGTH_ALLOWANCE, MOST_TIMEOUTS
from tasks.templating.opening import bos_problem
from tasks.templating.params import TemplatingParams
from tasks.templating.pictures import with_image_parts
from tasks.templating.plain_tokenizer import PlainTokenizer
from tasks.templating.renderer import Renderer
from tasks.templating.replaying import Plain, Replayer

SAMPLE_FIRST, SAMPLE_EVERY = 8, 997
PARSED_AT_ONCE = 64
"""Rows whose turns are objects at one time: more of them would not stay in the processor's cache,
and take half as long again."""


class Differs(Exception):
    """A replayed text is not the template's."""


class Pictured(Exception):
    """A row has images, and the table no column for them."""


class ShardRows:
    """Renders the batches of one shard, and keeps its accounts."""

    def __init__(
        self,
        tokenizer: PlainTokenizer,
        params: TemplatingParams,
        accounts: tuple[Ledger, Quarantine],
        *,
        replaying: bool,
        pictured: bool,
    ) -> None:
        self.ledger, self.quarantine = accounts
        self.strict = params.delimiters_in_text == "quarantine"
        self.renderer = Renderer(tokenizer, params.special_tokens_in_text, images=True)
        self.replayer = Replayer(tokenizer, self.renderer.special)
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
        marked = rows_to_ask(batch.texts)
        for place, plain in enumerate(self._plain(batch)):
            self.seen += 1
            sampled = self.seen <= SAMPLE_FIRST or self.seen % SAMPLE_EVERY == 0
            replay = None if plain is None else self._replayed(plain)
            if place in marked and not self._allowed(batch, place):
                continue
            if replay is None or sampled:
                self._look(batch, place, plain, replay)
            else:
                self.replayed += 1
                batch.kept.append(place)
                batch.sides.append(replay)
        table = self._table(batch)
        self._count(rows["source"], table["source"])
        return table

    def _plain(self, batch: Batch) -> Iterator[Plain | None]:
        """Both sides of each row that may be replayed."""
        count = len(batch.formats)
        apart = {n for n, name in enumerate(batch.formats) if name != "conversational"}
        apart |= {n for n, images in enumerate(batch.images) if images is not None}
        if not self.replaying or len(apart) == count:
            yield from [None] * count
            return
        texts = batch.texts
        if apart:
            texts = [[b"[]" if n in apart else t for n, t in enumerate(c)] for c in texts]
        for start in range(0, count, PARSED_AT_ONCE):
            part = slice(start, start + PARSED_AT_ONCE)
            given = [column[part] for column in texts], *(values[part] for values in batch.settings)
            for n, plain in enumerate(self.replayer.parsed(*given), start):
                yield None if n in apart else plain

    def _replayed(self, plain: Plain) -> tuple[str, str] | None:
        """Both texts; None where the renderer has to look at them, if only to say what is wrong."""
        texts = self.replayer.texts(plain)
        if texts is None:
            return None
        chosen, rejected = texts
        if chosen == rejected:
            return None
        if len(chosen) > LENGTH_ALLOWANCE or len(rejected) > LENGTH_ALLOWANCE:
            return None
        bos = self.renderer.bos
        if bos and (bos_problem(chosen, bos) or bos_problem(rejected, bos)):
            return None
        return texts

    def _look(
        self, batch: Batch, place: int, plain: Plain | None, replay: tuple[str, str] | None
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
        if replay is not None and replay != texts:
            raise Differs
        if row["images"] is not None:
            self._picture(batch, row["images"])
        for side, whole in zip(plain or (), found, strict=False):
            if not whole.literals and self.replayer.text(side) is None:
                self.replayer.learn(side, whole.text)
        if found[0].literals or found[1].literals:
            batch.literals[len(batch.kept)] = found
        batch.kept.append(place)
        batch.sides.append(texts)

    def _picture(self, batch: Batch, images: str) -> None:
        if not self.pictured:
            raise Pictured
        batch.pictures[len(batch.kept)] = images
        self.images += 1

    def _allowed(self, batch: Batch, place: int) -> bool:
        """Counts other templates' delimiters in a row; whether it may stay."""
        found = delimiters_in(*(column[place] for column in batch.texts))
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

    def _table(self, batch: Batch) -> pa.RecordBatch:
        rows, count = batch.rows, len(batch.kept)
        if count < rows.num_rows:
            rows = rows.take(pa.array(batch.kept, pa.int64()))
        columns: dict[str, Any] = {name: rows[name] for name in CARRIED}
        for n, side in enumerate(("chosen", "rejected")):
            columns[side] = pa.array([texts[n] for texts in batch.sides], pa.string())
            stretches: list[Any] = [None] * count
            for place, texts in batch.literals.items():
                stretches[place] = texts[n].literals or None
            columns[f"{side}_literals"] = pa.array(stretches, pa.list_(pa.int32()))
        if self.pictured:
            pictures = [batch.pictures.get(n) for n in range(count)]
            columns["images"] = pa.array(pictures, pa.string())
        arrays = [as_type(columns[field.name], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _counts(column: pa.Array) -> list[tuple[str, int]]:
    """How often each value stands in a column, first come first."""
    return [(str(v["values"]), int(v["counts"])) for v in column.value_counts().to_pylist()]
