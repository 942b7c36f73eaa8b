"""Weights and caps: which rows a mixture takes depends on their content alone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ingestion.mixture import RANGE, lowest, place

LINES = [json.dumps({"n": n}) + "\n" for n in range(2000)]


def _numbers(ingestion, artifact):
    return [row["raw"]["n"] for row in ingestion.rows(artifact)]


def test_a_weight_keeps_its_share_and_counts_the_rest(ingestion):
    path = ingestion.write("x.jsonl", "".join(LINES) + "bad\n")
    whole = ingestion.run(path)
    artifact = ingestion.run(path, weight=0.25)
    kept = _numbers(ingestion, artifact)
    assert kept == sorted(kept)
    assert kept == [n for n in range(2000) if place("s", LINES[n][:-1].encode()) < RANGE / 4]
    assert 420 < len(kept) < 580  # 500 expected; 80 are four standard deviations of 19.4
    account = artifact.report["ledger"]["s"]
    assert account["rows_in"] == 2001
    assert account["dropped"] == {"bad_json": 1, "capped": 2000 - len(kept)}
    assert artifact.key != whole.key
    wider = set(_numbers(ingestion, ingestion.run(path, weight=0.5)))
    assert set(kept) < wider  # a larger share only adds


def test_rows_added_elsewhere_move_no_row_of_a_weighted_source(ingestion):
    path = ingestion.write("raw/b.jsonl", "".join(LINES[:500]))
    before = _numbers(ingestion, ingestion.run(path.parent, weight=0.3))
    ingestion.write("raw/a.jsonl", "".join(LINES[500:]))
    after = _numbers(ingestion, ingestion.run(path.parent, weight=0.3))
    assert [n for n in after if n < 500] == before


@pytest.mark.parametrize("cap", [1, 7, 100, 1999, 2000, 5000])
def test_a_cap_keeps_exactly_so_many_rows_over_all_files(ingestion, cap):
    ingestion.write("raw/a.jsonl", "".join(LINES[:700]))
    ingestion.write("raw/b.jsonl", "".join(LINES[700:]))
    artifact = ingestion.run(ingestion.directory / "raw", cap=cap)
    kept = _numbers(ingestion, artifact)
    assert len(kept) == min(cap, 2000)
    assert kept == sorted(kept)
    account = artifact.report["ledger"]["s"]
    assert (account["rows_in"], account["rows_out"]) == (2000, len(kept))
    assert account["dropped"] == ({"capped": 2000 - cap} if cap < 2000 else {})
    assert artifact.report["sources"]["s"]["rows"] == len(kept)
    together = ingestion.run(ingestion.write("all.jsonl", "".join(LINES)), cap=cap)
    assert _numbers(ingestion, together) == kept  # whatever the files


def test_a_source_may_be_called_what_a_capped_one_could_be(ingestion):
    one, other = (ingestion.write(f"{n}.jsonl", "".join(LINES[:9])) for n in "ab")
    made = ingestion.step(
        {"name": "x", "path": str(one), "cap": 4}, {"name": "capped-x", "path": str(other)}
    )
    ledger = ingestion.store.obtain(made).report["ledger"]
    assert (ledger["x"]["rows_out"], ledger["capped-x"]["rows_out"]) == (4, 9)


def test_equal_rows_are_capped_one_by_one(ingestion):
    for name in "ab":
        ingestion.write(f"raw/{name}.jsonl", LINES[0] * 10)
    artifact = ingestion.run(ingestion.directory / "raw", cap=13)
    assert len(_numbers(ingestion, artifact)) == 13
    assert [row["file"][-7] for row in ingestion.rows(artifact)] == ["a"] * 10 + ["b"] * 3


def test_weight_comes_before_cap_and_both_resume(ingestion):
    path = ingestion.write("x.jsonl", "".join(LINES))
    weighted = _numbers(ingestion, ingestion.run(path, weight=0.5))
    both = _numbers(ingestion, ingestion.run(path, weight=0.5, cap=50))
    assert len(both) == 50
    assert set(both) < set(weighted)
    with pytest.raises(ValueError, match="weight"):
        ingestion.run(path, weight=2.0)


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 10))
def test_the_lowest_of_parts_are_the_lowest_of_all(places, cap):
    half = len(places) // 2
    parts = lowest(places[:half], cap) + lowest(places[half:], cap)
    assert lowest(parts, cap) == lowest(places, cap)
