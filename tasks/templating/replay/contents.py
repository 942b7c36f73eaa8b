"""The contents of many messages: those with white space around them, and all as stretches to copy.

In:  where contents stand in JSON (`turn_spans`), and the texts that are asked for.
Out: contents as they are; those with a backslash are parsed, the others stand there already.

    data        [{"role":"user","content":"Hi"}][{"role":"user","content":"a\\nb"}]
    stretches   0                          1 2                           3   4       1: a content
                5 "<|im_start|>user\\n"     6 "<|im_end|>\\n"     7 the parsed content, instead of 3
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
"""Bytes that a text may begin or end with where white space stands there."""


@dataclass(frozen=True)
class Contents:
    """The contents of the messages of some texts."""

    spans: TurnSpans
    padded: Mask
    """`[m]`: contents that have white space around them, of the texts that were asked for."""
    parsed: Places
    """Messages whose contents hold a backslash ..."""
    texts: Sequence[str]
    """... and these contents."""

    @classmethod
    def of(cls, spans: TurnSpans, asked: Mask) -> "Contents":
        """Those of the texts that are `asked` for (`[t]`)."""
        data, begins, stops = spans.data, spans.begins, spans.stops
        wanted = asked[spans.text_of]
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

    def small(self, size: int, asked: Mask) -> Iterator[tuple[int, str]]:
        """Messages of the texts that are `asked` for whose contents may have less than so many
        bytes, but for white space around them, and these contents."""
        spans, data = self.spans, self.spans.data
        some = (spans.stops - spans.begins < size) | self.padded
        some &= asked[spans.text_of]
        some[self.parsed] = False
        for message in np.flatnonzero(some).tolist():
            yield message, data[spans.begins[message] : spans.stops[message]].tobytes().decode()
        yield from zip(self.parsed.tolist(), self.texts, strict=True)

    def stretches(self, literals: Sequence[bytes]) -> tuple[pa.Array, Places]:
        """All contents and literals as strings, the literals last but for parsed contents; and the
        number of each message's content among them."""
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
