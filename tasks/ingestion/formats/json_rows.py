"""Checks that a record is one sound JSON object, and diagnoses what is wrong with it.

orjson decides for nearly all rows: it refuses bad UTF-8, lone surrogates, NaN, infinities and
trailing data. What it accepts (duplicate keys, NUL, depth) is detected by two cheap counts. Only
rows that fail are parsed again, by the standard library's decoder, for the message.

    {"id": 3, "score": NaN}  ->  {"id": 3, "score": {"number": "NaN"}}

Python writes NaN and infinities, which JSON cannot represent. They become objects, as in rows of
Parquet: a later stage that needs the number or text refuses it, other rows can still be used.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import orjson

from tasks.errors import shown
from tasks.ingestion.formats.batches import Fault, not_utf8

MAX_DEPTH = 64
"""Levels of objects and lists, including the row's own object."""

_CONTAINERS = frozenset({dict, list})
_ends_of_keys = re.compile(rb'"[ \t\r\n]*:').findall
"""Every key's end, and what looks like one in a string."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NAMES = re.compile(_STRING.pattern + rb"|(NaN|-?Infinity)", re.DOTALL)
_SPACE = " \t\r\n"


def sound_row(raw: bytes) -> tuple[bytes, Fault | None]:
    """The row with NaN and infinities as objects, and its fault; None for a sound row."""
    fault = json_fault(raw)
    if fault and fault.reason == "non_finite":
        named = _NAMES.sub(lambda m: b'{"number":"%b"}' % m[1] if m[1] else m[0], raw)
        if json_fault(named) is None:
            return named, None
    return raw, fault


def json_fault(raw: bytes) -> Fault | None:
    """What is wrong with a record; None for a sound JSON object."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return diagnose(raw) or Fault("bad_json", "", f"{error}; expected one JSON object")
    if type(value) is not dict or b"\\u0000" in raw:
        return diagnose(raw)
    keys, depth = len(value), 1
    if not _CONTAINERS.isdisjoint(map(type, value.values())):
        keys, depth = _keys_and_depth(value)
    # More ends of keys than keys: a key is duplicate, or a string has a quote before a colon.
    if depth > MAX_DEPTH or (
        keys != len(_ends_of_keys(raw)) and keys != len(_ends_of_keys(_without_escapes(raw)))
    ):
        return diagnose(raw)
    return None


def is_object(raw: bytes) -> bool:
    """Whether orjson parses it as an object."""
    try:
        return isinstance(orjson.loads(raw), dict)
    except orjson.JSONDecodeError:
        return False


def _without_escapes(raw: bytes) -> bytes:
    """The row with escaped backslashes and quotes masked, so that all quotes left delimit
    strings."""
    return raw.replace(rb"\\", b"__").replace(rb"\"", b"__")


def _keys_and_depth(value: dict[str, Any]) -> tuple[int, int]:
    if (counts := _keys_and_depth_of_messages(value)) is not None:
        return counts
    keys = depth = 0
    level: list[Any] = [value]
    while level:
        depth += 1
        below: list[Any] = []
        for node in level:
            children: Any = node
            if type(node) is dict:
                keys += len(node)
                children = node.values()
            below += [child for child in children if type(child) in _CONTAINERS]
        level = below
    return keys, depth


def _keys_and_depth_of_messages(value: dict[str, Any]) -> tuple[int, int] | None:
    """The same, fast, for a row whose only containers are lists of flat objects; else None. The
    depth is an upper bound."""
    keys = len(value)
    for column in value.values():
        if type(column) is dict:
            return None
        if type(column) is not list:
            continue
        items: list[Any] = column
        for item in items:
            if type(item) is not dict or not _CONTAINERS.isdisjoint(map(type, item.values())):
                return None
            keys += len(item)
    return keys, 3


def diagnose(raw: bytes) -> Fault | None:
    """The first fault of a record, or None; five times as slow as orjson."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        return not_utf8(error)
    if (column := too_deep_at(raw)) is not None:
        message = f"more than {MAX_DEPTH} levels from byte {column}; expected a flat JSON object"
        return Fault("too_deep", "", message)
    duplicates: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: set[str] = set()
        duplicates.extend(key for key, _ in pairs if key in seen or seen.add(key))
        return dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=unique, parse_int=float)
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return Fault("bad_json", "", _at(text, error.pos, f"{error.msg}; expected a JSON object"))
    if (rest := text[end:].strip(_SPACE)) != "":
        message = _at(text, end, f"{shown(rest, 40)} follows the JSON value; expected one per row")
        return Fault("trailing_data", "", message)
    if not isinstance(value, dict):
        message = f"found {shown(text.strip(_SPACE), 40)}; expected an object of named fields, "
        message += '{"prompt": ..., ...}: write each row as one'
        return Fault("not_object", "", message)
    if duplicates:
        message = f"key {shown(duplicates[0])} stands twice; only one of its values can be meant"
        return Fault("duplicate_key", duplicates[0], message)
    return _fault_in_leaves(value)


def _fault_in_leaves(value: dict[str, Any]) -> Fault | None:
    for name, child in value.items():
        for leaf in (name, *_leaves(child)):
            if isinstance(leaf, float) and not math.isfinite(leaf):
                message = "more than a 64-bit float holds; expected a finite number or null"
                return Fault("non_finite", _printable(name), message)
            if not isinstance(leaf, str):
                continue
            if any("\ud800" <= c <= "\udfff" for c in leaf):
                message = (
                    "half of a surrogate pair, as where text was cut: write the whole character, "
                    "or remove the half"
                )
                return Fault("lone_surrogate", _printable(name), message)
            if "\0" in leaf:
                return Fault("nul_char", _printable(name), "holds the NUL character; remove it")
    return None


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield key
            yield from _leaves(child)
    elif isinstance(value, list):
        for child in value:
            yield from _leaves(child)
    else:
        yield value


def too_deep_at(raw: bytes) -> int | None:
    """The 1-based byte where the nesting passes `MAX_DEPTH`, or None."""
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return None
    depth = 0
    blanked = _STRING.sub(lambda m: b" " * len(m[0]), raw)
    for match in re.finditer(rb"[\[\]{}]", blanked):
        depth += 1 if match[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            return match.start() + 1
    return None


def _at(text: str, position: int, message: str) -> str:
    return f"byte {len(text[:position].encode('utf-8', 'surrogatepass')) + 1}: {message}"


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()
