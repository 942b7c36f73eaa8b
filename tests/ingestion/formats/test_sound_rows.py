"""The look at many records at once lets nothing pass that the look at each one would not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.ingestion.formats import lines, sound_rows
from tasks.ingestion.formats.batches import Origin
from tasks.ingestion.formats.json_rows import MAX_DEPTH, diagnose, json_fault, sound_row
from tasks.ingestion.formats.jsonl import lines_as_rows
from tasks.ingestion.formats.sound_rows import doubtful

TEXTS = st.sampled_from(
    ["", "x", ":-(", " : ", 'a" : b', 'say "k": 1', "\\", "c:\\", "\\u0000", "u0000", "\t", "\0",
     '{"a":1}', "[" * 70, "}", "é", "\u2028", "a\\"]
)  # fmt: skip
AS_THEY_ARE = st.sampled_from(
    ['"\\u0022: "', '"\\u003a"', '"\\"\\u003A"', '"\\\\": "', '"\\":"', '"\\\\\\":"', "NaN",
     "\ufeff", "[" * 70 + "]" * 70, '"\\ud83d"', "1e999", '{"a":1,"a":2}', "[]", "{}", "null",
     "-0.5", "\\"]
)  # fmt: skip
STRINGS = st.builds(json.dumps, TEXTS, ensure_ascii=st.booleans())
KEYS = st.sampled_from([*"abcdefgh", "role", "content", "a:", "a,", "a ", "[", "a\\", '"']).map(
    json.dumps
)
AROUND = st.sampled_from(["", " "] * 8 + ["  ", "\t", "\r"])
BEFORE_COLON = st.sampled_from([""] * 24 + [" ", "\t", "  ", "\r"])
"""White space there is rare, and to be seen all the same."""


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The text of an object; now and then a key stands in it twice."""
    entries = st.tuples(KEYS, BEFORE_COLON, AROUND, values).map(
        lambda e: f"{e[0]}{e[1]}:{e[2]}{e[3]}"
    )
    return (
        st.lists(entries, max_size=4, unique_by=lambda e: e[:3])
        .flatmap(lambda written: st.just(written) | st.just([*written, *written[:1]]))
        .map(lambda written: "{" + ",".join(written) + "}")
    )


def lists(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(AROUND, st.lists(values, max_size=3)).map(
        lambda given: "[" + f",{given[0]}".join(given[1]) + "]"
    )


VALUES = st.recursive(
    STRINGS | STRINGS | AS_THEY_ARE, lambda inner: objects(inner) | lists(inner), max_leaves=6
)
RECORDS = st.lists(objects(VALUES) | objects(STRINGS) | VALUES, min_size=1, max_size=6)


@settings(max_examples=400, deadline=None)
@given(RECORDS)
def test_what_is_not_doubted_is_sound(records):
    raws = [record.encode() for record in records]
    doubts = doubtful(raws)
    assert doubts == sorted({*doubts})
    for raw in (raw for i, raw in enumerate(raws) if i not in doubts):
        assert json_fault(raw) is None
        assert diagnose(raw) is None
        assert b"\r" not in raw


@settings(max_examples=500, deadline=None)
@given(RECORDS)
def test_a_row_says_what_it_said_but_for_numbers_that_json_has_no_form_for(records):
    for raw in (record.encode() for record in records):
        sound, fault = sound_row(raw)
        if fault is None:
            assert json_fault(sound) is None
            said = json.loads(raw, parse_constant=lambda name: {"number": name})
            assert json.loads(sound) == said
            assert (sound == raw) == (json_fault(raw) is None)
        else:
            assert (sound, fault) == (raw, json_fault(raw))


@settings(max_examples=300, deadline=None)
@given(RECORDS, st.integers(1, 60))
def test_lines_read_together_end_as_lines_read_one_by_one(records, size):
    """Whatever the pieces are in which the bytes come."""
    given_lines = [record.encode() for record in records]
    content = b"".join(line + b"\n" for line in given_lines)
    read = [*lines_as_rows(_origin(), iter(_cut(content, size)))]
    kept = [*zip((r for b in read for r in b.rows), (r for b in read for r in b.raws), strict=True)]
    bad = {entry.row: entry.fault for batch in read for entry in batch.bad}
    numbered = [*enumerate(map(_without_ends, given_lines), 1)]
    expected = [(n, *sound_row(raw)) for n, raw in numbered if raw.strip()]
    assert kept == [(n, raw) for n, raw, fault in expected if fault is None]
    faults = {n: fault for n, raw, fault in expected if fault is not None}
    if 1 in faults and numbered[0][1].lstrip().startswith(b"["):  # as an array does
        hint = "; if the file is an array of rows, say format: json"
        faults[1] = replace(faults[1], message=faults[1].message + hint)
    assert bad == faults
    assert sum(batch.read for batch in read) == len(given_lines)


@pytest.mark.parametrize("size", [1, 7, 999, 4096])
def test_of_a_row_above_the_limit_the_beginning_is_held(monkeypatch, size):
    monkeypatch.setattr(lines, "ROW_LIMIT_BYTES", 5000)
    row = bytes(range(48, 91)) * 200
    content = b'{"a":1}\n' + row + b'\n{"a":2}\n'
    [block] = [b for b in lines.blocks(iter(_cut(content, size))) if b.oversized]
    assert row.startswith(block.lines[0])
    assert 5000 < len(block.lines[0]) <= 5000 + size
    assert block.oversized == {0: len(row)}


def _cut(content: bytes, size: int) -> list[bytes]:
    """Pieces of that size, the first of which holds an end of line."""
    first = max(size, content.index(b"\n") + 1)
    rest = [content[i : i + size] for i in range(first, len(content), size)]
    return [content[:first], *rest]


def _without_ends(line: bytes) -> bytes:
    return line.removesuffix(b"\r").removeprefix(b"\xef\xbb\xbf")


def _origin() -> Origin:
    return Origin(Path("x.jsonl"), "x.jsonl", "", "", Path())


USUAL = {"prompt": [{"role": "user", "content": "x: [1]\n" * 40}], "n": {"k": [1, {"l": None}, []]}}
ODD = [
    b'{"a":1,"a":2}',
    b'{"a":{"b":1,"c":[{"d":1,"d":1}]}}',
    b'{"a" :1,"a":2}',
    b'{"a"\t:1}',
    b'{"a":"\\u0000"}',
    b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
    b'{"a":' + b"[" * MAX_DEPTH + b'{"b":1}' + b"]" * MAX_DEPTH + b"}",
    b'{"a":' + b'[{"b":' * MAX_DEPTH + b"1" + b"}]" * MAX_DEPTH + b"}",
    b'{"a":":-("}',
    b'{"a":"\\": "}',
    b'{"a":1}\r',
]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [0, 150, 999])
def test_of_many_records_one_that_is_odd_is_doubted(odd, place):
    raws = [json.dumps(USUAL).encode()] * 1000
    assert doubtful(raws) == []
    raws[place] = odd
    doubts = doubtful(raws)
    assert place in doubts
    assert len(doubts) < 1000 * sound_rows.SOME_BYTES // sum(map(len, raws)) + 2


def test_records_that_no_json_reader_takes_are_doubted_with_their_neighbours_only():
    raws = [json.dumps(USUAL).encode()] * 1000
    raws[500:502] = b"", b"[1]"
    doubts = doubtful(raws)
    assert {500, 501} <= {*doubts}
    assert len(doubts) < 300


def test_what_is_too_large_to_be_looked_at_at_once_is_doubted():
    large = json.dumps({"a": "x" * sound_rows.MOST_BYTES}).encode()
    assert doubtful([b'{"a":1}', large]) == [1]
    assert doubtful([]) == []
