"""Some rows of a record batch: their JSON texts in one buffer, and searches for rare characters.

    prompt  [{"role": ...}]   null          ->  [[{"role": ...}],"Yes","No",[],"It is","It",...]
    chosen  "Yes"             "It is"            row 0                    ,row 1
    rejected "No"             "It"

A piece has few enough rows for everything that is made of them to stay in the processor's cache.
Most pieces hold none of the characters that are searched for, which one search over the whole piece
shows for each of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]
ROWS = 64
"""Rows of a piece; with many more, templating would take half as long again."""
PRINTABLE = 32
"""JSON writes a character from here on as itself, as `\\uXXXX`, or after a backslash."""
_NO_TURNS = pc.JoinOptions(null_handling="replace", null_replacement="[]")
"""An empty list in place of an absent prompt."""


@dataclass(frozen=True)
class Piece:
    """The JSON texts of some rows."""

    text: bytes
    """One JSON list of three values for every row."""
    begins: npt.NDArray[np.int32]
    """Where each row's first value begins in `text`, and where a next row would begin."""

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.begins) - 1

    def row(self, place: int) -> bytes:
        """One row's three values, with commas between them."""
        return self.text[self.begins[place] : self.begins[place + 1] - 1]

    def rows_at(self, places: Places) -> set[int]:
        """The rows that the places in `text` belong to."""
        return set((np.searchsorted(self.begins, places, "right") - 1).tolist())

    def may_hold(self, characters: Iterable[str]) -> list[str]:
        """Those of the characters that a string of the piece may hold."""
        every = list(characters)
        present = [c for c in every if ord(c) < PRINTABLE or c.encode() in self.text]
        return every if len(present) < len(every) and self._names_characters else present

    @cached_property
    def _names_characters(self) -> bool:
        """Whether some character is written as `\\uXXXX`."""
        bytes_ = np.frombuffer(self.text, np.uint8)
        return bool(((bytes_[:-1] == ord("\\")) & (bytes_[1:] == ord("u"))).any())


def text_array(texts: Sequence[bytes]) -> pa.Array:
    """Texts in UTF-8 as Arrow has them. (`pa.array` would import pandas, for longer than a worker
    process takes for thousands of rows.)"""
    ends = np.fromiter(accumulate(map(len, texts), initial=0), np.int32, len(texts) + 1)
    parts = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), parts)


def place_array(places: Sequence[int] | Places) -> pa.Array:
    """Places as Arrow has them; see `text_array`."""
    data = pa.py_buffer(np.ascontiguousarray(places, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(places), [None, data])


_END, _COMMA = text_array([b"", b","])


def pieces(columns: Sequence[pa.Array]) -> Iterable[Piece]:
    """The rows of three columns of JSON texts in pieces of `ROWS`: prompts (some may be null),
    chosen and rejected."""
    joined = pc.call_function("binary_join_element_wise", [*columns, _END, _COMMA], _NO_TURNS)
    _, offsets, data = joined.buffers()
    ends, whole = np.frombuffer(offsets, np.int32, len(joined) + 1), memoryview(data)
    for start in range(0, len(joined), ROWS):
        begins = ends[start : start + ROWS + 1]
        text = b"".join((b"[", whole[begins[0] : begins[-1] - 1], b"]"))
        yield Piece(text, begins - (begins[0] - 1))
