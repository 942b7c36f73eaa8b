"""The ledger balances, or says so; the quarantine keeps every row."""

import json
from fractions import Fraction

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.artifact import Ledger, Quarantine
from tasks.errors import ArtifactError

EVENTS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["out", "empty", "duplicate"]))
)


def ledger_of(events) -> Ledger:
    ledger = Ledger()
    for source, what in events:
        ledger.count_in(source)
        if what == "out":
            ledger.count_out(source)
        else:
            ledger.drop(source, what)
    return ledger


@given(EVENTS, EVENTS)
def test_merged_ledgers_balance_and_equal_the_ledger_of_all(first, second):
    merged = ledger_of(first)
    merged.merge(Ledger.from_json(json.loads(json.dumps(ledger_of(second).to_json()))))
    merged.check()
    whole = ledger_of(first + second)
    assert (merged.rows_in, merged.rows_out) == (whole.rows_in, whole.rows_out)
    assert merged.dropped == whole.dropped


def test_a_row_without_a_line_is_found():
    ledger = ledger_of([("a", "out"), ("a", "empty")])
    ledger.count_in("a")
    with pytest.raises(ArtifactError, match=r"'a' does not balance: 3 in .* 1 out . 1 dropped"):
        ledger.check()


def test_duplicates_are_not_bad_rows():
    ledger = ledger_of([("a", "duplicate"), ("a", "empty"), ("a", "out"), ("a", "out")])
    ledger.drop("a", "blank_line", 7)
    ledger.count_in("a", 7)
    assert ledger.accounts["a"].bad_share == Fraction(1, 4)


def test_the_quarantine_keeps_the_row_and_its_origin(tmp_path):
    quarantine = Quarantine("conversion")
    quarantine.add("s", "f.jsonl", 7, "null", "chosen", "found null", '{"chosen":null}')
    quarantine.write(tmp_path / "q.parquet")
    assert pq.read_table(tmp_path / "q.parquet").to_pylist() == [
        {
            "stage": "conversion",
            "source": "s",
            "file": "f.jsonl",
            "row": 7,
            "reason": "null",
            "field": "chosen",
            "message": "found null",
            "raw": '{"chosen":null}',
        }
    ]
