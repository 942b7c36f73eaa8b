"""A raw row, parsed: as ingestion wrote it -> what layouts read.

    '{"prompt": "Hi", "chosen": ...}'  ->  {"prompt": "Hi", "chosen": ...}

Two things are not as the text has them. Keys that only a table fills with null are left out
(nulls.py). And whole numbers beyond 64 bits, which readers of JSON round, are refused where a chat
template would print them: a call with 1e+21 among its arguments is another call.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import orjson

from tasks.conversion.conversation.nulls import unfilled
from tasks.conversion.conversation.printed_nulls import PRINTED
from tasks.conversion.layouts.columns import Row
from tasks.conversion.unusable import Unusable, found

_LONG = re.compile(r"\d{19}")


def raw_row(raw: str, file: str) -> Row:
    """The row that a file's text stands for.

    Raises:
        Unusable: bad_json, not_object, number_too_large.
    """
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Unusable(
            "bad_json", "raw", f"found {found(raw)}, which is no JSON: {error}; correct the line"
        ) from None
    if not isinstance(row, dict):
        raise Unusable("not_object", "raw", f"found {found(row)}, expected an object with columns")
    if any(f'"{name}"' in raw for name in PRINTED):
        if _LONG.search(raw):
            _refuse_rounded(json.loads(raw))
        return unfilled(row, raw, file)
    return row


def _refuse_rounded(row: Row) -> None:
    for field, number in _numbers(row, "", printed=False):
        if not -(2**63) <= number < 2**64:
            raise Unusable(
                "number_too_large",
                field,
                f"found {found(number)}, expected whole numbers within 64 bits: a larger one is "
                'rounded when it is read; write it as text ("...")',
            )


def _numbers(value: Any, field: str, *, printed: bool) -> Iterator[tuple[str, int]]:
    """The whole numbers that templates print, each with the place where it stands."""
    if isinstance(value, dict):
        for key, each in cast(dict[str, Any], value).items():
            inside = f"{field}.{key}" if field else key
            yield from _numbers(each, inside, printed=printed or key in PRINTED)
    elif isinstance(value, list):
        for place, each in enumerate(cast(list[Any], value)):
            yield from _numbers(each, f"{field}[{place}]", printed=printed)
    elif printed and type(value) is int:
        yield field, value
