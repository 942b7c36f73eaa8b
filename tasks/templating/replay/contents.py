"""The contents of many messages as slices of one buffer, and which have white space at their ends.

In:  where contents stand in the JSON (`turn_spans`), and which texts are wanted.
Out: the contents; those with a backslash are parsed, the others are used as they stand in the JSON.

    data        [{"role":"user","content":"Hi"}][{"role":"user","content":"a\\nb"}]
    stretches   0                          1 2                           3   4       1: a content
                5 "<|im_start|>user\\n"     6 "<|im_end|>\\n"     7 the parsed content, used for 3
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa

from tasks.templating.replay.piece import Places
from tasks.templating.replay.turn_spans import Mask, TurnSpans

_FIRST, _LAST = np.zeros((2, 256), np.bool_)
for _space in filter(str.isspace, map(chr, range(0x3001))):
    _FIRST[_space.encode()[0]] = _LAST[_space.encode()[-1]] = True
"""Bytes with which white space at the beginning or at the end of a UTF-8 text may begin or end."""


@dataclass(frozen=True)
class Contents:
    """The contents of the messages of some texts."""

    spans: TurnSpans
    padded: Mask
    """`[m]`: contents with white space at an end, among the texts that are wanted."""
    parsed: Places
    """The messages whose contents hold a backslash."""
    texts: Sequence[str]
    """The parsed contents of these messages."""

    @classmethod
    def of(cls, spans: TurnSpans, texts_wanted: Mask) -> "Contents":
        """The contents; `texts_wanted`: `[t]`, which texts are looked at."""
        data, begins, stops = spans.data, spans.begins, spans.stops
        wanted = texts_wanted[spans.text_of]
        padded = wanted & (_FIRST[data[begins]] | _LAST[data[stops - 1]])
        for message in np.flatnonzero(padded).tolist():
            text = data[begins[message] : stops[message]].tobytes().decode()
            padded[message] = text != text.strip()
        parsed = spans.messages_at(spans.escapes)
        parsed = parsed[wanted[parsed]]
        texts: list[str] = []
        if len(parsed):
            whole = data.data
            bounds = zip(begins[parsed].tolist(), stops[parsed].tolist(), strict=True)
            texts = orjson.loads(b'["' + b'","'.join([whole[a:b] for a, b in bounds]) + b'"]')
            padded[parsed] = [text != text.strip() for text in texts]
        return cls(spans, padded, parsed, texts)

    def small(self, size: int, texts_wanted: Mask) -> Iterator[tuple[int, str]]:
        """Messages of the wanted texts whose contents, once stripped, may have less than `size`
        bytes; each with its content."""
        spans, data = self.spans, self.spans.data
        some = (spans.stops - spans.begins < size) | self.padded
        some &= texts_wanted[spans.text_of]
        some[self.parsed] = False
        for message in np.flatnonzero(some).tolist():
            yield message, data[spans.begins[message] : spans.stops[message]].tobytes().decode()
        yield from zip(self.parsed.tolist(), self.texts, strict=True)

    def stretches(self, literals: Sequence[bytes]) -> tuple[pa.Array, Places]:
        """All slices of the data, then the literals, then the parsed contents, as one array of
        strings; and the index of each message's content in it."""
        spans = self.spans
        count = len(spans.begins)
        more = [*literals, *map(str.encode, self.texts)]
        ends = np.empty(2 * count + 2 + len(more), np.int32)
        ends[0], ends[2 * count + 1] = 0, len(spans.data)
        ends[1 : 2 * count + 1 : 2], ends[2 : 2 * count + 1 : 2] = spans.begins, spans.stops
        ends[2 * count + 2 :] = len(spans.data) + np.cumsum([*map(len, more)])
        numbers = 2 * np.arange(count) + 1
        numbers[self.parsed] = 2 * count + 1 + len(literals) + np.arange(len(self.parsed))
        data = pa.py_buffer(b"".join([spans.data.data, *more]))
        parts = [None, pa.py_buffer(ends), data]
        return pa.Array.from_buffers(pa.string(), len(ends) - 1, parts), numbers
