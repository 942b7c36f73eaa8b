"""Lines that end in CR, or in CR here and in LF there: each row is read, or the file refused."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import DataError
from tasks.ingestion.formats import decompression, lines
from tasks.ingestion.formats.jsonl import lines_as_rows
from tests.ingestion.formats.test_sound_rows import _origin
from tests.ingestion.growth.test_full_shards import WHOLE, settled, used

__all__ = ["used"]


def rows(start: int, stop: int, end: str, size: int = 10) -> str:
    return "".join(json.dumps({"n": n, "s": "x" * size}) + end for n in range(start, stop))


MIXED = {
    # content, line of it that holds several rows
    "LF behind CR": (rows(0, 50, "\r") + rows(50, 60, "\n"), 1),
    "CR behind LF": (rows(0, 50, "\n") + rows(50, 60, "\r"), 51),
    "CRLF behind CR": (rows(0, 50, "\r") + rows(50, 60, "\r\n"), 1),
    "CR between LF": (rows(0, 9, "\n") + rows(0, 5, "\r") + rows(0, 9, "\n"), 10),
    "one LF at the end": (rows(0, 5, "\r") + "\n", 1),
    "first of CR bad": ("{x\r" + rows(0, 5, "\r") + rows(5, 9, "\n"), 1),
    "LF behind CR and the first piece": (rows(0, 3000, "\r", 400) + rows(0, 20, "\n"), 3001),
    "CR rows larger than a piece": (rows(0, 3, "\n") + rows(3, 6, "\r", 1_200_000), 4),
    "first CR row larger than a piece": (rows(0, 3, "\r", 1_200_000) + rows(3, 6, "\n"), 1),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_with_line_ends_of_both_kinds_is_refused_before_rows_are_lost(ingestion, name, pack):
    content, line = MIXED[name][0].encode(), MIXED[name][1]
    path = ingestion.write("x.jsonl", pack(content))
    says = rf"x.jsonl line {line}: several rows .* mixed, CR and LF; .*tr '\\r' '\\n' < old > new"
    with pytest.raises(DataError, match=says):
        ingestion.run(path)
    path.write_bytes(pack(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")))
    assert {row["raw"]["n"] for row in ingestion.rows(ingestion.run(path))} >= {3, 4}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["\n", "\r", "\r\n", "\r\r\n", ""]), max_size=8), st.integers(1, 40)
)
def test_whatever_ends_rows_all_of_them_are_read_or_the_file_is_refused(ends, size):
    content = "".join(f'{{"n":{n}}}{end or chr(10)}' for n, end in enumerate(ends)).encode()
    content = content if all(ends) else content[:-1]
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    try:
        batches = [*lines_as_rows(_origin(), iter(pieces))]
    except DataError:
        assert b"\r" in content
        return
    assert [json.loads(raw)["n"] for b in batches for raw in b.raws] == [*range(len(ends))]
    assert not any(batch.bad for batch in batches)


def test_more_carriage_returns_than_a_row_may_be_long_are_no_oversized_row(ingestion, monkeypatch):
    monkeypatch.setattr(lines, "ROW_LIMIT_BYTES", 2**20)
    path = ingestion.write("x.jsonl", rows(0, 9, "\n") + rows(0, 600, "\r", 5_000))
    with pytest.raises(DataError, match="line 10: several rows"):
        ingestion.run(path)


def test_rows_of_the_other_kind_that_are_appended_refuse_the_file(ingestion):
    for name, before, after, line in [
        ("cr.jsonl", rows(0, 500, "\r"), rows(500, 700, "\n"), 1),
        ("lf.jsonl", rows(0, 500, "\n"), rows(500, 700, "\r"), 501),
        ("long.jsonl", rows(0, 25_000, "\n"), rows(0, 2, "\r"), 25_001),
    ]:
        path = ingestion.write(name, before)
        assert ingestion.run(path).report["ledger"]["s"]["rows_out"] in {500, 25_000}
        path.write_text(before + after, newline="")
        with pytest.raises(DataError, match=f"{name} line {line}: several rows"):
            ingestion.run(path)


def test_a_shard_made_aside_that_holds_both_kinds_refuses_the_file(ingestion, used):
    begin, behind = WHOLE.split('{"n": 15000,')
    content = begin + rows(0, 9, "\r") + '{"n": 15000,' + behind
    with pytest.raises(DataError, match="line 15001: several rows"):
        ingestion.run(settled(ingestion.write("a.jsonl", content)))
    assert used == [2]


@pytest.mark.parametrize(
    ("content", "numbers", "bad"),
    [
        ('{"n":1}\r\n{"n":2}\r\n', [1, 2], {}),
        ('{"n":\r1}\n\r{"n":2}\r\r\n{\r"n"\r:3}', [1, 2, 3], {}),
        ('{"n":1}\n{"n":2}\r', [1, 2], {}),
        ('{"n":1}\n{"n":2}\rx\n{"n":3}\n', [1, 3], {2: "trailing_data"}),
        ('{"n":1}\n{"n":"{}\r{ }"}\n', [1], {2: "bad_json"}),
        ('{"n":1}\n[1]\r[2]\n', [1], {2: "trailing_data"}),
    ],
)
def test_stray_carriage_returns_cost_no_more_than_their_row(ingestion, content, numbers, bad):
    artifact = ingestion.run(ingestion.write("x.jsonl", content))
    assert [row["raw"]["n"] for row in ingestion.rows(artifact)] == numbers
    assert {b["row"]: b["reason"] for b in ingestion.quarantine(artifact)} == bad


def test_a_line_feed_at_the_end_of_a_file_of_carriage_returns_is_a_blank_line(ingestion):
    content = rows(0, 3000, "\r", 400) + "\n"
    assert content.index("\n") > decompression.PIECE_BYTES
    account = ingestion.run(ingestion.write("x.jsonl", content)).report["ledger"]["s"]
    assert (account["rows_out"], account["dropped"]) == (3000, {"blank_line": 1})


CSV = "a,b\n" + "".join(f'{n},"x{n}"\n' for n in range(50))


def test_a_carriage_return_in_a_cell_without_quotes_costs_its_row_with_fitting_advice(ingestion):
    artifact = ingestion.run(ingestion.write("x.csv", CSV + 'p\rq,x\n1,"r\rs"\n"t"\ru,x\n'))
    assert ingestion.rows(artifact)[-1]["raw"] == {"a": "1", "b": "r\rs"}
    bad = ingestion.quarantine(artifact)
    assert [(b["row"], b["reason"], b["raw"]) for b in bad] == [
        (52, "csv_quote", "p\rq,x"),
        (54, "csv_quote", '"t"\ru,x'),
    ]
    for entry in bad:
        assert entry["message"].startswith("a carriage return (CR) stands outside of quotes")
        assert "put its cell in quotes" in entry["message"]
        assert "as two" not in entry["message"]


def test_a_csv_header_that_ends_in_a_carriage_return_is_told_so(ingestion):
    path = ingestion.write("x.csv", CSV.replace("\n", "\r") + '7,"two\nlines"\r')
    says = r"line 1: no usable header \(a carriage return \(CR\) .* write their ends as LF or CRLF"
    with pytest.raises(DataError, match=says):
        ingestion.run(path)
    path.write_text(CSV.replace("\n", "\r"), newline="")
    assert len(ingestion.rows(ingestion.run(path))) == 50


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (CSV + CSV[4:].replace("\n", "\r"), 52),
        (CSV + "é\x00,x\r" * 2 + "1,2\n", 52),
        (CSV.replace("\n", "\r") + f"1,{'x' * 900}\r" * 1500 + CSV[4:], 1552),
    ],
)
def test_a_csv_file_with_line_ends_of_both_kinds_is_refused(ingestion, content, line):
    path = ingestion.write("x.csv", content)
    with pytest.raises(DataError, match=f"x.csv line {line}: several rows .* mixed, CR and LF"):
        ingestion.run(path)


def test_a_json_file_of_lines_may_begin_with_a_line_larger_than_a_piece(ingestion):
    text = rows(0, 1, "\n", 1_400_000) + rows(1, 30, "\n")
    members = [text.encode()[at : at + 2**16] for at in range(0, len(text), 2**16)]
    for name, content in [
        ("a.json", text),
        ("b.json.gz", b"".join(map(gzip.compress, members))),
        ("c.json", " \n" + text.split("\n")[0]),
    ]:
        artifact = ingestion.run(ingestion.write(name, content))
        found = [row["raw"]["n"] for row in ingestion.rows(artifact)]
        assert found == [*range(1 if name == "c.json" else 30)]


def test_a_json_file_without_a_line_end_is_read_no_further_than_a_row_may_be_long(
    ingestion, monkeypatch
):
    from tasks.ingestion.formats import json_array

    monkeypatch.setattr(json_array, "ROW_LIMIT_BYTES", 2 * 2**20)
    path = ingestion.write("a.json", '{"rows":[' + '{"n":1},' * 10**6 + "1]}")
    with pytest.raises(DataError, match=r"starts with .* one object of at most 2 MB per line"):
        ingestion.run(path)
