"""One shard of canonical pairs as rendered texts: what a worker process does.

conversion's pairs/NNNNN.parquet  ->  pairs/NNNNN.parquet

Rows go by columns; those that are replayed are never made into objects. The first rows and every
997th are rendered both ways. Should both ever differ, the whole shard is rendered again by Jinja
alone, and the report counts it.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Ledger, Quarantine, Workspace
from tasks.conversion.batches import bounded_batches
from tasks.conversion.tolerance import first_examples
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, shown
from tasks.templating.delimiters import delimiters_in
from tasks.templating.limits import LENGTH_ALLOWANCE, MOST_TIMEOUTS
from tasks.templating.opening import bos_problem
from tasks.templating.params import TemplatingParams
from tasks.templating.plain_tokenizer import PlainTokenizer
from tasks.templating.renderer import Rendered, Renderer, text_only
from tasks.templating.replaying import Parsed, Replayer

SCHEMA = pa.schema(
    [
        ("pair_id", pa.string()),
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("split", pa.string()),
        ("format", pa.string()),
        ("chosen", pa.string()),
        ("rejected", pa.string()),
        ("chosen_literals", pa.list_(pa.int32())),
        ("rejected_literals", pa.list_(pa.int32())),
        ("margin", pa.float64()),
        ("weight", pa.float64()),
        ("preference", pa.float64()),
        ("comparison", pa.string()),
    ]
)
OPTIONAL = {"margin": None, "preference": 1.0, "comparison": None}
"""Columns that most data leave as they are by default, and that default: the report counts others,
and tokenization writes the column only where there are any."""
CARRIED = ("pair_id", "source", "file", "row", "split", "format", "weight", *OPTIONAL)
TEXTS = ("prompt", "chosen", "rejected", "tools", "chat_template_kwargs")
REPEATING = ["source", "file", "split", "format"]
BATCH_ROWS = 1024
BATCH_BYTES = 16 * 2**20
SAMPLE_FIRST, SAMPLE_EVERY = 8, 997

Row = tuple[Any, ...]
"""The values of `TEXTS`."""


class Differs(Exception):
    """A replayed text is not the template's."""


@dataclass(frozen=True)
class TemplateShard:
    """The work on one shard; picklable."""

    workspace: Workspace
    tokenizer: PlainTokenizer
    params: TemplatingParams

    def __call__(self, shard: Path, ledger: Ledger, quarantine: Quarantine) -> dict[str, Any]:
        """Writes the shard's texts; counts for the report."""
        try:
            own_ledger, own_quarantine = Ledger(), Quarantine(quarantine.stage)
            numbers = self._write(shard, own_ledger, own_quarantine, replaying=True)
        except Differs:
            own_ledger, own_quarantine = Ledger(), Quarantine(quarantine.stage)
            numbers = self._write(shard, own_ledger, own_quarantine, replaying=False)
            numbers["replays_differed"] = 1
        ledger.merge(own_ledger)
        quarantine.extend(own_quarantine.rows)
        return numbers

    def _write(
        self, shard: Path, ledger: Ledger, quarantine: Quarantine, *, replaying: bool
    ) -> dict[str, Any]:
        rows = ShardRows(self.tokenizer, self.params, ledger, quarantine, replaying)
        given: Counter[str] = Counter()
        writer_class: Any = pq.ParquetWriter  # annotated as if it took no column names
        with (
            self.workspace.writing(f"pairs/{shard.name}") as path,
            writer_class(path, SCHEMA, compression="zstd", use_dictionary=REPEATING) as writer,
        ):
            for batch in bounded_batches(shard, BATCH_ROWS, BATCH_BYTES):
                table = rows.rendered(batch)
                for name, usual in OPTIONAL.items():
                    column = table[name]
                    filled = table.num_rows - column.null_count
                    given[name] += filled if usual is None else _unequal(column, usual)
                writer.write_batch(table)
        return {
            **{name: given[name] for name in OPTIONAL},
            "delimiters": dict(rows.delimiters),
            "examples": first_examples(quarantine),
            "replayed": rows.replayed,
            "replays_differed": 0,
        }


class ShardRows:
    """Renders the batches of one shard, and keeps its accounts."""

    def __init__(
        self,
        tokenizer: PlainTokenizer,
        params: TemplatingParams,
        ledger: Ledger,
        quarantine: Quarantine,
        replaying: bool,
    ) -> None:
        self.ledger, self.quarantine = ledger, quarantine
        self.strict = params.delimiters_in_text == "quarantine"
        self.renderer = Renderer(tokenizer, params.special_tokens_in_text)
        self.replayer = Replayer(tokenizer, self.renderer.special)
        self.bos = self.renderer.bos
        self.replaying = replaying and self.replayer.tracer is not None
        self.delimiters: Counter[str] = Counter()
        self.replayed = 0
        self.seen = 0

    def rendered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can be used, as `SCHEMA` has them."""
        sides: list[tuple[Any, Any]] = []
        kept: list[int] = []
        literals: dict[int, tuple[Rendered, Rendered]] = {}
        rows = zip(*(batch[name].to_pylist() for name in TEXTS), strict=True)
        formats = batch["format"].to_pylist()
        pictured = _pictured(batch)
        for place, row in enumerate(rows):
            try:
                if place in pictured:
                    raise text_only("the row has images")
                self._check_delimiters(row)
                texts = self._sides(batch, place, row, formats[place])
            except Unusable as bad:
                self._drop(batch.slice(place, 1).to_pylist()[0], bad)
                continue
            if isinstance(texts[0], Rendered):
                if texts[0].literals or texts[1].literals:
                    literals[len(kept)] = texts
                texts = (texts[0].text, texts[1].text)
            kept.append(place)
            sides.append(texts)
        whole = batch if len(kept) == batch.num_rows else batch.take(pa.array(kept, pa.int64()))
        self._count(batch["source"], whole["source"])
        return self._table(whole, sides, literals)

    def _sides(self, batch: pa.RecordBatch, place: int, row: Row, kind: str) -> tuple[Any, Any]:
        """Both texts; replayed where that is possible, else by the renderer, and learned."""
        self.seen += 1
        plain = self.replayer.parsed(row) if self.replaying and kind == "conversational" else None
        if plain is None:
            return self.renderer.sides(self._row(batch, place, row))
        replay = self._replayed(plain)
        sampled = self.seen <= SAMPLE_FIRST or self.seen % SAMPLE_EVERY == 0
        if replay is not None and not sampled:
            self.replayed += 1
            return replay
        found = self.renderer.sides(self._row(batch, place, row))
        if replay is not None and replay != (found[0].text, found[1].text):
            raise Differs
        for side, whole in zip(plain, found, strict=True):
            if not whole.literals and self.replayer.text(side) is None:
                self.replayer.learn(side, whole.text)
        return found

    def _replayed(self, plain: tuple[Parsed, Parsed]) -> tuple[str, str] | None:
        """Both texts; None where the renderer has to look at them, if only to say what is wrong."""
        chosen, rejected = (self.replayer.text(side) for side in plain)
        if chosen is None or rejected is None or chosen == rejected:
            return None
        if max(len(chosen), len(rejected)) > LENGTH_ALLOWANCE:
            return None
        if self.bos and (bos_problem(chosen, self.bos) or bos_problem(rejected, self.bos)):
            return None
        return chosen, rejected

    def _row(self, batch: pa.RecordBatch, place: int, row: Row) -> dict[str, Any]:
        return {**dict(zip(TEXTS, row, strict=True)), "format": batch["format"][place].as_py()}

    def _check_delimiters(self, row: Row) -> None:
        """Counts other templates' delimiters in a row; raises Unusable where that is asked for."""
        found = delimiters_in(*row[:3])
        if not found:
            return
        self.delimiters.update(found)
        if self.strict:
            raise Unusable(
                "delimiter_in_text",
                "prompt",
                f"the text holds {', '.join(map(shown, sorted(found)))}, which templates mark "
                "turns with; mend the row, or set templating.delimiters_in_text: count",
            )

    def _count(self, came: pa.Array, went: pa.Array) -> None:
        for source, count in _counts(came):
            self.ledger.count_in(source, count)
        for source, count in _counts(went):
            self.ledger.count_out(source, count)

    def _drop(self, row: dict[str, Any], bad: Unusable) -> None:
        self.ledger.drop(row["source"], bad.reason)
        raw = json.dumps({n: row[n] for n in ("prompt", "chosen", "rejected")})
        origin = (row["source"], row["file"], row["row"])
        self.quarantine.add(*origin, bad.reason, bad.field, bad.message, raw)
        timeouts = sum(a.dropped["template_timeout"] for a in self.ledger.accounts.values())
        if timeouts > MOST_TIMEOUTS:
            raise DataError(
                f"templating: {timeouts} rows were too much for the chat template, the last "
                f"{row['file']} row {row['row']}: {bad.message}"
            )

    def _table(
        self,
        rows: pa.RecordBatch,
        sides: list[tuple[str, str]],
        literals: dict[int, tuple[Rendered, Rendered]],
    ) -> pa.RecordBatch:
        columns: dict[str, Any] = {name: rows[name] for name in CARRIED}
        for n, side in enumerate(("chosen", "rejected")):
            columns[side] = pa.array([texts[n] for texts in sides], pa.string())
            kind = SCHEMA.field(f"{side}_literals").type
            stretches: list[Any] = [None] * len(sides)
            for place, texts in literals.items():
                stretches[place] = texts[n].literals or None
            columns[f"{side}_literals"] = pa.array(stretches, kind)
        arrays = [columns[name].cast(SCHEMA.field(name).type) for name in SCHEMA.names]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _pictured(batch: pa.RecordBatch) -> set[int]:
    """The places of rows with images."""
    if "images" not in batch.schema.names:
        return set()
    found: list[int] = np.flatnonzero(np.asarray(batch["images"].is_valid())).tolist()
    return set(found)


def _counts(column: pa.Array) -> list[tuple[str, int]]:
    """How often each value stands in a column, first come first."""
    return [(str(v["values"]), int(v["counts"])) for v in column.value_counts().to_pylist()]


def _unequal(column: pa.Array, usual: float) -> int:
    values = np.asarray(column)
    return int((values != usual).sum())
