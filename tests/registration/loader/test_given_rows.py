"""Rows of a table: each is of the form that its filled cells say."""

import pandas as pd
import pytest

from tasks.registration.loader.given_rows import content, rows_of

ASKED = [{"role": "user", "content": "What color is the sky?"}]
ANSWERED = [*ASKED, {"role": "assistant", "content": "Blue."}]
TOOLS = [{"type": "function", "function": {"name": "look"}}]
NO_OPTIONS = {"tools": None, "chat_template_kwargs": None}


def test_a_cell_that_a_table_leaves_blank_is_no_part_of_its_row():
    table = pd.DataFrame(
        [
            {"messages": ANSWERED},
            {"text": "Blue."},
            {"prompt": "The sky is", "completion": " blue."},
            {"prompt": ASKED, "completion": "Blue.", "tools": TOOLS},
        ]
    )
    assert table.isna().sum().tolist() == [3, 3, 2, 2, 3]
    assert [content(row) for row in rows_of(table)] == [
        (ANSWERED, NO_OPTIONS),
        ("Blue.", NO_OPTIONS),
        ("The sky is blue.", {}),
        (ANSWERED, NO_OPTIONS | {"tools": TOOLS}),
    ]


def test_a_row_all_of_whose_cells_are_blank_is_told_with_the_forms_that_there_are():
    table = pd.DataFrame([{"messages": ANSWERED}, {"text": float("nan")}])
    with pytest.raises(ValueError, match=r"a row is .*nan.*; expected a text, a list of messages"):
        content(rows_of(table)[1])


def test_an_answer_beside_messages_that_lack_one_is_not_left_out():
    with pytest.raises(ValueError, match=r"end in a turn of role 'user', and 'completion' beside"):
        content({"messages": ASKED, "completion": "Blue."})
    for blank in (None, float("nan")):
        assert content({"messages": ASKED, "completion": blank})[0] == ASKED
    assert content({"messages": ANSWERED, "completion": "Blue."})[0] == ANSWERED
