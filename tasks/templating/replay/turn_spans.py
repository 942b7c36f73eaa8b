"""Where roles and contents stand in the JSON of many conversations, found in columns.

In:  texts as conversion writes conversations, end to end in one buffer.
Out: of every message where its content stands; of every text a number that its roles make; and the
     texts that are anything else.

    [{"role":"user","content":"Hi"},{"role":"assistant","content":"\\"Yes\\""}]
      a     .  .    b         . c  d                                       eight quotes a message

Every byte between roles and contents is compared with the one expected, so a text that passes has
exactly this form. The data are searched only for quotes, backslashes and a few rare bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.templating.replay.piece import Places, text_array

Mask = npt.NDArray[np.bool_]
Numbers = tuple[int, ...]
"""The roles of a row's texts: see `roles_of`."""
ROLES = ("user", "assistant", "system")
"""The roles of plain turns; each adds its place here, from 1 on, to a text's number."""
MOST_TURNS = 31
"""A text's number has two bits for each."""
PADDING = 16
PIECE_BYTES = 2**16
_QUOTE, _BACKSLASH, _COMMA, _OPEN, _CLOSE, _LIST, _END = b'"\\,{}[]'
_QUOTES = 8


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


_ROLE_KEY, _CONTENT_KEY, _KEY_END = map(_word, (b'"role":"', b'","conte', b'ntent":"'))
_KNOWN = [(len(name) + 1, f'"{name}","'.encode()) for name in ROLES]


@dataclass(frozen=True)
class TurnSpans:
    """The messages of `t` texts, in their order."""

    data: npt.NDArray[np.uint8]
    """All texts, and `PADDING` bytes."""
    ends: Places
    """`[t + 1]`: where each text begins, and where the last one ends."""
    begins: Places
    """`[m]`: the first byte of each message's content in the JSON."""
    stops: Places
    """`[m]`: the byte after the content: its closing quote."""
    text_of: Places
    """`[m]`: which text a message stands in."""
    firsts: Places
    """`[t + 1]`: how many messages stand before each text."""
    numbers: npt.NDArray[np.uint64]
    """`[t]`: the roles of a text's messages, see `roles_of`; 0: it has none."""
    odd: Mask
    """`[t]`: texts in another form than this one; everything else said of them here is wrong."""
    escapes: Places
    """Where backslashes stand."""
    rare: Places
    """Where the bytes given as `rare` stand."""

    def messages_at(self, places: Places) -> Places:
        """The messages whose contents the places stand in; each once."""
        places = places[places >= self.begins[0]] if len(self.begins) else places[:0]
        messages = np.searchsorted(self.begins, places, "right") - 1
        return np.unique(messages[places < self.stops[messages]])


def roles_of(number: int) -> tuple[str, ...]:
    """The roles of a text's messages, in their order."""
    return tuple(ROLES[(number >> n & 3) - 1] for n in range(0, number.bit_length(), 2))


def turn_spans(columns: Sequence[pa.Array], rare: bytes = b"") -> TurnSpans:
    """The messages of all texts of these columns, one column after the other; a null counts as a
    text without messages. `rare`: further bytes to find, neither quote nor backslash."""
    count = sum(map(len, columns))
    _, offsets, buffer = pa.concat_arrays([*columns, text_array([bytes(PADDING)])]).buffers()
    ends = np.frombuffer(offsets, np.int32, count + 1).astype(np.int64)
    data = np.frombuffer(buffer, np.uint8, int(ends[-1]) + PADDING)
    places = _places_of(bytes([_QUOTE, _BACKSLASH, *rare]), data)
    quoted = data[places] == _QUOTE
    quotes, others = places[quoted], places[~quoted]
    escaping = data[others] == _BACKSLASH
    escapes = others[escaping]
    quotes = _unescaped(data, quotes, escapes)
    counts = np.diff(np.searchsorted(quotes, ends))
    odd = counts % _QUOTES != 0
    if odd.any():
        quotes, counts = quotes[np.repeat(~odd, counts)], np.where(odd, 0, counts)
    a, b, c, d = quotes.reshape(-1, _QUOTES)[:, [0, 3, 6, 7]].T.copy()
    counts //= _QUOTES
    firsts = np.concatenate([[0], np.cumsum(counts)])
    text_of = np.repeat(np.arange(count), counts)
    roles, good = _roles(data, a, b)
    good &= _framed(data, a, d, firsts, ends)
    odd[text_of[~good]] = True
    sizes = np.diff(ends)
    nothing = (sizes == 0) | (sizes == 2) & (data[ends[:-1]] == _LIST)  # a null, or []
    odd |= (counts == 0) & ~nothing | (counts > MOST_TURNS)
    shifts = 2 * np.minimum(np.arange(len(a)) - firsts[text_of], MOST_TURNS)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(roles << shifts.astype(np.uint64))])
    numbers = sums[firsts[1:]] - sums[firsts[:-1]]
    some = others[~escaping]
    return TurnSpans(data, ends, c + 1, d, text_of, firsts, numbers, odd, escapes, some)


def _places_of(wanted: bytes, data: npt.NDArray[np.uint8]) -> Places:
    """Where one of these bytes stands; searched in pieces that stay in the processor's cache."""
    found: list[Places] = []
    for start in range(0, len(data), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        hits = piece == wanted[0]
        for byte in wanted[1:]:
            hits |= piece == byte
        found.append(np.flatnonzero(hits) + start)
    return np.concatenate(found)


def _unescaped(data: npt.NDArray[np.uint8], quotes: Places, escapes: Places) -> Places:
    """The quotes that are not escaped: those not preceded by an odd number of backslashes."""
    order = np.arange(len(escapes))
    begins = np.where(np.diff(escapes, prepend=-2) != 1, order, 0)
    odd = (order - np.maximum.accumulate(begins)) % 2 == 0  # the first of a run, the third ...
    behind = escapes[odd] + 1
    return np.delete(quotes, np.searchsorted(quotes, behind[data[behind] == _QUOTE]))


def _roles(
    data: npt.NDArray[np.uint8], a: Places, b: Places
) -> tuple[npt.NDArray[np.uint64], Mask]:
    """The number of each message's role, and whether `{"role":"...","content":"` precedes it."""
    words: Any = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    roles = np.zeros(len(a), np.uint64)
    starts, stops, lengths = words[a + 7], words[b - 5], b - a - 7
    for number, (length, text) in enumerate(_KNOWN, 1):
        same = (lengths == length) & (starts == _word(text[:8])) & (stops == _word(text[-8:]))
        roles[same] = number
    good = (words[a] == _ROLE_KEY) & (words[b] == _CONTENT_KEY) & (words[b + 5] == _KEY_END)
    return roles, good & (roles > 0) & (data[a - 1] == _OPEN)


def _framed(
    data: npt.NDArray[np.uint8], a: Places, d: Places, firsts: Places, ends: Places
) -> Mask:
    """Whether each message is closed, and begins its text, follows the message before it, or ends
    its text with exactly the expected bytes."""
    good = data[d + 1] == _CLOSE
    after = np.append(a[1:], 0) == d + 4
    after &= data[d + 2] == _COMMA
    filled = firsts[1:] > firsts[:-1]
    first, last = firsts[:-1][filled], firsts[1:][filled] - 1
    after[last] = (d[last] + 3 == ends[1:][filled]) & (data[d[last] + 2] == _END)
    good &= after
    good[first] &= (a[first] - 2 == ends[:-1][filled]) & (data[a[first] - 2] == _LIST)
    return good
