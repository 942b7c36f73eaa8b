"""Columns that are named by a dotted path into one."""

import pytest

from tasks.conversion import Unusable
from tasks.conversion.layouts import reader, recognise
from tasks.conversion.preference.pair import checked
from tasks.errors import DataError
from tests.conversion.layouts.test_public_layouts import pairs_of_rows


def test_a_column_may_be_a_path_into_one(caplog):
    row = {"q": {"text": "Hi"}, "answers": [{"a": "No."}, {"a": "Hello."}], "q.text": "first"}
    mapping = {"prompt": "q.text", "chosen": "answers.1.a", "rejected": "answers.0.a"}
    with caplog.at_level("INFO"):
        assert recognise("votes", None, mapping, [row | {"more": 1}]) == "columns"
    assert "does not read: 'more'" in caplog.text.replace("'columns' ", "")
    (pair,), _ = pairs_of_rows("columns", [row], mapping)
    assert (pair.prompt, pair.chosen, pair.rejected) == ("first", "Hello.", "No.")
    del row["q.text"]
    assert pairs_of_rows("columns", [row], mapping)[0][0].prompt == "Hi"
    for path, says in (
        ("q.words", "expected 'words'"),
        ("q.text.0", "found the text 'Hi' at 'q.text', expected an object or a list .*: shorten"),
        ("answers.2.a", "at 'answers', expected an item 2, counted from 0: correct"),
        ("answers.a", "at 'answers', expected an object with 'a': name one item, as in answers.0"),
    ):
        with pytest.raises(Unusable, match=says):
            reader("columns", mapping | {"prompt": path})(row)
    judged = reader("columns", mapping | {"margin": "meta.m.0"})
    assert [judged(row | {"meta": m})[0].margin for m in ({"m": [2]}, None)] == [2, None]
    with pytest.raises(Unusable, match=r"^null: chosen: "):
        checked(reader("columns", mapping | {"chosen": "meta.m"})(row | {"meta": None})[0])
    with pytest.raises(
        DataError, match=r"columns\.prompt names 'x\.text', which none of its first"
    ):
        recognise("votes", None, mapping | {"prompt": "x.text"}, [row])


def test_rows_without_any_column_are_told_as_that():
    with pytest.raises(DataError, match=r"its first 2 rows have no column: .* write the rows"):
        recognise("votes", None, {}, [{}, {}])
