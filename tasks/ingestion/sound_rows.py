"""Which of many records are certainly sound JSON objects, at a fraction of the time for one.

In:  the bytes of some records, as `json_rows` takes them one by one.
Out: the places of those that have to be looked at one by one; all others are sound.

What orjson lets pass shows in counts over all records at once. A key that stands twice is one key
less when the values are written anew:

    {"a":1,"a":2}   2 times `":`        {"a":2}   1 time

Text that holds `":` counts alike on both sides, unless a character of it is escaped where orjson
would not; and a key may have white space behind it. Either is seen by one look at every colon and
backslash, in columns.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import orjson

from tasks.ingestion.json_rows import MAX_DEPTH

_QUOTE, _BACKSLASH, _COLON = b'"\\:'
_SPACES = np.isin(np.arange(256), list(b" \t\r\n"))
MOST_BYTES = 4 * 2**20
"""Of records that are looked at in one go: what bounds memory."""
_AROUND = b"\n" * 8
"""Stands before and behind the text, so that a look at its neighbours stays within it."""

Places = npt.NDArray[np.intp]


def doubtful(raws: Sequence[bytes]) -> Sequence[int]:
    """The places of records that may be something else than one sound JSON object, in order."""
    everyone = range(len(raws))
    sizes = np.fromiter(map(len, raws), np.int64, len(raws)) + 1
    if sizes.sum() > MOST_BYTES:
        return everyone
    whole = _AROUND + b"\n".join(raws) + _AROUND
    ends = np.cumsum(sizes) + len(_AROUND)
    strange = np.searchsorted(ends, _strange_places(np.frombuffer(whole, np.uint8)), "right")
    doubts = {*strange.tolist()}
    deep = [i for i, raw in enumerate(raws) if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH]
    doubts.update(deep)
    rest = [raw for i, raw in enumerate(raws) if i not in doubts] if doubts else raws
    return sorted(doubts) if _are_sound(rest) else everyone


def _are_sound(raws: Sequence[bytes]) -> bool:
    """Whether records without anything strange are JSON objects without a key that stands twice."""
    try:
        anew = [*map(orjson.dumps, map(orjson.loads, raws))]
    except (ValueError, TypeError):  # what orjson raises on reading and on writing
        return False
    if not all(value[:1] == b"{" for value in anew):
        return False
    return _ends_of_keys(raws) == _ends_of_keys(anew)


def _ends_of_keys(raws: Sequence[bytes]) -> int:
    """How often a quote stands before a colon."""
    text = np.frombuffer(b"\n" + b"\n".join(raws), np.uint8)
    return int((text[np.flatnonzero(text == _COLON) - 1] == _QUOTE).sum())


def _strange_places(text: npt.NDArray[np.uint8]) -> Places:
    """Where a quote may be parted from its colon, or is written as an escape, or NUL is; and
    carriage returns, which are no part of a record at its end."""
    returns = np.flatnonzero(text == ord("\r"))
    colons = np.flatnonzero(text == _COLON)
    parted = colons[_SPACES[text[colons - 1]]]
    before = text[parted - 2]
    parted = parted[(before == _QUOTE) | _SPACES[before]]
    escapes = np.flatnonzero(text == _BACKSLASH)
    escapes = escapes[text[escapes + 1] == ord("u")]
    escapes = escapes[(text[escapes + 2] == ord("0")) & (text[escapes + 3] == ord("0"))]
    high, low = text[escapes + 4], text[escapes + 5] | 0x20  # 0x20: in lower case; digits have it
    nul = (high == ord("0")) & (low == ord("0"))
    quote = (high == ord("2")) & (low == ord("2"))
    colon = (high == ord("3")) & (low == ord("a"))
    return np.concatenate([returns, parted, escapes[nul | quote | colon]])
