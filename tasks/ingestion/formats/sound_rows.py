"""Checks many records at once: finds those that may not be sound JSON objects.

In:  the bytes of some records.
Out: the indices of those that `json_rows` has to check one by one; all others are sound.

orjson rejects nearly all that is wrong, but not a duplicate key, of which it keeps the last value.
Duplicate keys show in two counts over many records at once:

    {"a":1,"b":[{"a":2}]}    3 times `":`    3 keys in the objects that orjson made
    {"a":1,"b":2,"a":3}      3 times `":`    2 keys: one is gone
    {"a":":-("}              2 times `":`    1 key: the other one is part of a text

Every key is followed by `":` (white space in between is searched for separately), and orjson never
finds more keys than were written: if both counts are equal, no key is duplicate. If not, records
with a `":` that looks unlike the end of a key are set aside, and the rest is counted again.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from tasks.ingestion.formats.json_rows import MAX_DEPTH

_QUOTE, _BACKSLASH, _COLON, _SPACE, _U, _LIST = b'"\\: u['
_SPACES = np.isin(np.arange(256), list(b" \t\r\n"))
_SELDOM_IN_KEYS = np.isin(np.arange(256), list(b" \t\\:,[{"))
"""Bytes before a quote that begins a text or is escaped; keys seldom end with one of them."""
SOME_BYTES = 2**16
"""Bytes of records that are checked at once: with their values, they fit the processor's cache."""
MOST_BYTES = 4 * 2**20
"""A larger group is checked record by record, which bounds memory."""
_BEFORE = b"\n" * 3
"""Padding before the text, so that looking back a few bytes stays within it."""

Text = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]
Values = list[Any]


def doubtful(raws: Sequence[bytes]) -> list[int]:
    """The indices of the records that may not be sound JSON objects, in order."""
    size = sum(map(len, raws)) + len(raws)
    step = max(1, len(raws) * SOME_BYTES // max(1, size))
    doubts: list[int] = []
    for start in range(0, len(raws), step):
        doubts += [start + place for place in _doubtful(raws[start : start + step])]
    return doubts


def _doubtful(raws: Sequence[bytes]) -> Sequence[int]:
    everyone = range(len(raws))
    whole = _BEFORE + b"\n".join(raws)
    if len(whole) > MOST_BYTES:
        return everyone
    text = np.frombuffer(whole, np.uint8)
    if strange := [*_strange_places(whole, text)]:
        doubts = {*_records_at(strange, raws).tolist()}
        others = [place for place in everyone if place not in doubts]
        further = _doubtful([raws[place] for place in others])
        return sorted([*doubts, *(others[place] for place in further)])
    objects = _objects(raws)
    if objects is None:
        return everyone
    ends = (text[:-1] == _QUOTE) & (text[1:] == _COLON)
    count = int(np.count_nonzero(ends))
    keys, lists, levels = _counts(objects, count)
    odd: set[int] = set()
    if keys != count:
        places = np.flatnonzero(ends)
        records = _records_at(places, raws)
        odd = {*records[_SELDOM_IN_KEYS[text[places - 1]]].tolist()}
        count = int(np.count_nonzero(~np.isin(records, [*odd])))
        others = [value for i, value in enumerate(objects) if i not in odd]
        keys, lists, levels = _counts(others, count)
        if keys != count:
            return everyone
    # The count of levels may lack lists, and one empty object at the end.
    if levels + np.count_nonzero(text == _LIST) - lists >= MAX_DEPTH:
        odd.update(i for i, r in enumerate(raws) if r.count(b"{") + r.count(b"[") > MAX_DEPTH)
    return sorted(odd)


def _objects(raws: Sequence[bytes]) -> Values | None:
    """The records' values; None if one of them is no JSON object."""
    try:
        values: Values = [*map(orjson.loads, raws)]
    except orjson.JSONDecodeError:
        return None
    return values if {*map(type, values)} <= {dict} else None


def _records_at(places: Sequence[int] | Places, raws: Sequence[bytes]) -> Places:
    """The index of the record at each of these offsets of the text."""
    lasts = np.cumsum([len(raw) + 1 for raw in raws]) + len(_BEFORE)
    return np.searchsorted(lasts, places, "right")


def _counts(objects: Values, most: int) -> tuple[int, int, int]:
    """The numbers of keys, lists and levels in these objects and those within them; counting stops
    at `most` keys."""
    keys = lists = levels = 0
    while objects:
        levels += 1
        keys += sum(map(len, objects))
        if keys >= most:
            break
        children: Values = [*chain.from_iterable(map(dict.values, objects))]
        objects = []
        while children:
            kinds = {*map(type, children)}
            if kinds == {dict}:
                objects += children
                break
            if kinds != {list}:
                objects += [child for child in children if type(child) is dict]
                children = [child for child in children if type(child) is list]
            lists += len(children)
            levels += bool(children)
            children = [*chain.from_iterable(children)]
    return keys, lists, levels


def _strange_places(whole: bytes, text: Text) -> Iterator[int]:
    """Offsets of tabs, carriage returns, escaped NUL characters, and quotes that white space may
    separate from their colon."""
    before, behind = text[:-1], text[1:]
    parted = (before == _SPACE) & (behind == _COLON)
    if parted.any():
        places = np.flatnonzero(parted)
        further = text[places - 1]
        yield from places[(further == _QUOTE) | _SPACES[further]].tolist()
    if ((before == _BACKSLASH) & (behind == _U)).any():
        yield from _places_of(b"\\u0000", whole)
    yield from _places_of(b"\r", whole)
    yield from _places_of(b"\t", whole)


def _places_of(mark: bytes, whole: bytes) -> Iterator[int]:
    place = whole.find(mark)
    while place >= 0:
        yield place
        place = whole.find(mark, place + 1)
