"""One record batch of canonical pairs on its way through templating, and the columns it ends in.

Columns are taken as lists of Python's values in one go, far faster than value by value; JSON texts
as UTF-8, which is what their parser reads.
"""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tasks.templating.renderer import Rendered

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


@dataclass
class Batch:
    """One record batch, its columns as Python has them, and what became of its rows so far."""

    rows: pa.RecordBatch
    texts: list[list[bytes]]
    """Of `TEXTS`, as UTF-8; the empty list where there is no prompt."""
    settings: list[list[str | None]]
    """Of `SETTINGS`."""
    formats: list[str]
    images: list[str | None]
    kept: list[int] = field(default_factory=list[int])
    sides: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    literals: dict[int, tuple[Rendered, Rendered]] = field(
        default_factory=dict[int, tuple[Rendered, Rendered]]
    )
    """By place among the kept rows; as are the next."""
    pictures: dict[int, str] = field(default_factory=dict[int, str])

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> "Batch":
        """Nothing has become of the rows yet."""
        texts = [_bytes(rows[name]) for name in TEXTS]
        images = _values(rows["images"]) if "images" in rows.schema.names else []
        settings = [_values(rows[name]) for name in SETTINGS]
        return cls(rows, texts, settings, _values(rows["format"]), images or [None] * rows.num_rows)

    def row(self, place: int) -> dict[str, Any]:
        """What the renderer asks of one row."""
        row: dict[str, Any] = {
            name: column[place].decode() for name, column in zip(TEXTS, self.texts, strict=True)
        }
        if not self.rows["prompt"][place].is_valid:
            row["prompt"] = None
        row |= {name: column[place] for name, column in zip(SETTINGS, self.settings, strict=True)}
        return row | {"format": self.formats[place], "images": self.images[place]}


def _bytes(column: pa.Array) -> list[bytes]:
    """JSON texts as UTF-8; the empty list where there is none."""
    found: list[bytes | None] = _values(column.cast(pa.binary()))
    return [b"[]" if text is None else text for text in found]


def _values(column: pa.Array) -> list[Any]:
    """A column as Python's values; far faster than one by one."""
    return column.to_numpy(zero_copy_only=False).tolist()


def as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column; converted only where its type is another one."""
    return column if column.type == kind else column.cast(kind)
