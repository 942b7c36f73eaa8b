"""JSON takes as much memory as it is long."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tasks.ingestion.formats.json_bytes import dumped

KEEPING = """
from tasks.artifact.memory import _resident
from tasks.ingestion.formats.json_bytes import dumped

before = _resident()
kept = [dumped([{"role": "assistant", "content": "x" * 300}]) for _ in range(20_000)]
print((_resident() - before) / sum(map(len, kept)))
"""


def test_texts_that_are_kept_take_hardly_more_memory_than_they_are_long():
    """orjson's own take twelve times as much."""
    times = subprocess.check_output(
        [sys.executable, "-c", KEEPING], cwd=Path(__file__).parents[3], text=True
    )
    assert float(times) < 2


PAIRS = """
from tasks.artifact.memory import _resident
from tasks.conversion.preference.identity import identify
from tasks.conversion.layouts.trl import TrlOptions
from tasks.conversion.preference.pair import Pair
from tasks.conversion.first_pass.parts import parts_of
from tasks.conversion.first_pass.usual_pairs import PIECE_ROWS, UsualPairs
from tasks.conversion.plan import Plan
from tasks.ingestion.formats.json_bytes import dumped

def turn(role, n):
    return [{"role": role, "content": f"{n} " + "x" * 300}]

def row(n):
    return {"prompt": turn("user", n), "chosen": turn("assistant", n)} | {
        "rejected": turn("assistant", -n)
    }

def pieces(start, count):
    for first in range(start, start + count, PIECE_ROWS):
        yield first, [dumped(row(n + 1)) for n in range(first, first + PIECE_ROWS)]

def taken(start, count):
    pairs = UsualPairs(parts_of("trl", False, TrlOptions(), list), Plan({}, 0, 0.1), 0.1)
    for first, raws in pieces(start, count):
        pairs.take(raws, first)
    assert len(pairs.places) == count
    return pairs

def identified(start, count):
    return [identify(Pair(**row(n + 1)), 0, 0.1) for n in range(start, start + count)]

for many in (taken, identified):
    many(0, PIECE_ROWS)  # what every call needs is there
    before = _resident()
    kept = many(1_000, 8192)
    print((_resident() - before) / 8192)
"""


def test_pairs_that_wait_to_be_written_take_little_more_than_their_texts():
    """A KB of texts a pair, once more where it is searched; 12 KB if they were orjson's."""
    found = subprocess.check_output(
        [sys.executable, "-c", PAIRS], cwd=Path(__file__).parents[3], text=True
    )
    by_columns, one_by_one = map(float, found.split())
    assert by_columns < 3000
    assert one_by_one < 5000


@pytest.mark.parametrize("value", [[], "", {"a": ["\u2019", 1.5, None]}, "x" * 10_000])
def test_it_is_what_orjson_gives(value):
    assert dumped(value) == orjson.dumps(value)


def test_other_values_are_told_by_who_asks():
    assert dumped([{1}], sorted) == b"[[1]]"
    with pytest.raises(orjson.JSONEncodeError):
        dumped({1})
