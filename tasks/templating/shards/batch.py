"""One record batch of canonical pairs on its way through templating, and the columns it ends in."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tasks.templating.renderer import Rendered
from tasks.templating.replay.piece import Piece, Places, pieces, place_array, text_array
from tasks.templating.replay.replaying import BothTexts, both_texts

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
IMAGES = pa.field("images", pa.string())
"""JSON of a row's images, in the order of their parts: a column of shards that have any."""
OPTIONAL = {"margin": None, "preference": 1.0, "comparison": None}
"""Columns that most data leave as they are by default, and that default: the report counts others,
and tokenization writes the column only where there are any."""
CARRIED = ("pair_id", "source", "file", "row", "split", "format", "weight", *OPTIONAL)
TEXTS = ("prompt", "chosen", "rejected")
SETTINGS = ("tools", "chat_template_kwargs")
INPUTS = (*TEXTS, *SETTINGS, "format", "images")
"""Columns that the renderer reads."""


@dataclass
class Batch:
    """One record batch, and what became of its rows so far."""

    rows: pa.RecordBatch
    inputs: dict[str, pa.Array]
    """The columns `INPUTS`."""
    apart: frozenset[int]
    """Rows that are never replayed: plain texts, and rows with images."""
    texts_alone: frozenset[int]
    """Plain texts without images."""
    settings: list[list[str | None]]
    """The columns `SETTINGS`."""
    kept: list[int] = field(default_factory=list[int])
    texts: BothTexts = field(default_factory=both_texts)
    """Texts of the kept rows since the last `gather`."""
    arrays: list[tuple[pa.Array, pa.Array]] = field(default_factory=list[tuple[pa.Array, pa.Array]])
    """Texts of the kept rows before those, as Arrow arrays."""
    literals: dict[int, tuple[Rendered, Rendered]] = field(
        default_factory=dict[int, tuple[Rendered, Rendered]]
    )
    """Both sides of rows with literal stretches, by place among the kept rows."""
    pictures: dict[int, str] = field(default_factory=dict[int, str])
    """JSON of the images, by place among the kept rows."""

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> "Batch":
        """A batch none of whose rows has been rendered yet."""
        nothing = pa.nulls(rows.num_rows)
        present = set(rows.schema.names)
        inputs = {name: rows[name] if name in present else nothing for name in INPUTS}
        texts: set[int] = set()
        if inputs["format"].unique().to_pylist() != ["conversational"]:
            formats = inputs["format"].to_pylist()
            texts.update(n for n, name in enumerate(formats) if name != "conversational")
        pictured = {n for n, value in enumerate(_values(inputs["images"])) if value is not None}
        kinds = frozenset(texts | pictured), frozenset(texts - pictured)
        return cls(rows, inputs, *kinds, [_values(inputs[name]) for name in SETTINGS])

    def pieces(self) -> Iterable[Piece]:
        """The texts of all rows, piece by piece."""
        return pieces([self.rows[name] for name in TEXTS])

    def row(self, place: int) -> dict[str, Any]:
        """What the renderer reads of one row."""
        return {name: column[place].as_py() for name, column in self.inputs.items()}

    def stored(self, place: int) -> list[bytes]:
        """The JSON texts of one row, those that there are."""
        texts = (self.inputs[name][place].as_py() for name in TEXTS)
        return [text.encode() for text in texts if text is not None]

    def keep(self, place: int, texts: tuple[str, str]) -> None:
        """Keeps one row with both its texts."""
        self.kept.append(place)
        for side, text in zip(self.texts, texts, strict=True):
            side.append(text.encode())

    def part(self, places: Places) -> "Batch":
        """Some of its rows as a batch of their own, not rendered yet."""
        return Batch.of(self.rows.take(place_array(places)))

    def adopt(
        self, kept: list[int], texts: tuple[pa.Array, pa.Array], others: "Batch", places: Places
    ) -> None:
        """Keeps these rows with their texts, and takes over literals and images of the batch
        `others`, whose rows stand at `places` here."""
        self.kept, self.arrays = kept, [texts]
        place = dict(zip(kept, range(len(kept)), strict=True)).__getitem__
        here: list[int] = places[others.kept].tolist()
        self.literals = {place(here[n]): value for n, value in others.literals.items()}
        self.pictures = {place(here[n]): value for n, value in others.pictures.items()}

    def both_texts(self) -> tuple[pa.Array, pa.Array]:
        """All texts of the kept rows, gathered."""
        chosen, rejected = zip(*self.arrays, strict=True) if self.arrays else ([], [])
        nothing = text_array([])
        return pa.concat_arrays([nothing, *chosen]), pa.concat_arrays([nothing, *rejected])

    def gather(self) -> None:
        """Makes arrays of the texts since the last call."""
        chosen, rejected = self.texts
        if chosen:
            self.arrays.append((text_array(chosen), text_array(rejected)))
            self.texts = both_texts()

    def table(self, schema: pa.Schema) -> pa.RecordBatch:
        """The kept rows, as `schema` has them."""
        rows, count = self.rows, len(self.kept)
        if count < rows.num_rows:
            rows = rows.take(place_array(self.kept))
        columns: dict[str, Any] = {name: rows[name] for name in CARRIED}
        for n, (side, texts) in enumerate(zip(TEXTS[1:], self.both_texts(), strict=True)):
            columns[side] = texts
            columns[f"{side}_literals"] = self._literals(n)
        if IMAGES.name in schema.names:
            pictures = [self.pictures.get(n) for n in range(count)]
            columns[IMAGES.name] = pa.array(pictures, pa.string())
        arrays = [columns[field.name].cast(field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _literals(self, side: int) -> pa.Array:
        """Where the kept rows' texts of one side are literal."""
        kind, count = pa.list_(pa.int32()), len(self.kept)
        if not self.literals:
            return pa.nulls(count, kind)
        stretches: list[Any] = [None] * count
        for place, texts in self.literals.items():
            stretches[place] = texts[side].literals or None
        return pa.array(stretches, kind)


def _values(column: pa.Array) -> list[Any]:
    """A column as Python's values."""
    return [None] * len(column) if column.null_count == len(column) else column.to_pylist()
