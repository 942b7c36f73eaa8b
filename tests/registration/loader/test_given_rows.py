"""Rows of a table: each is of the form that its filled cells say."""

import json

import pandas as pd
import pytest
from datasets import Dataset

from tasks.registration.loader.given_rows import content, rows_of

ASKED = [{"role": "user", "content": "What color is the sky?"}]
ANSWERED = [*ASKED, {"role": "assistant", "content": "Blue."}]
TOOLS = [{"type": "function", "function": {"name": "look"}}]
NO_OPTIONS = {"tools": None, "chat_template_kwargs": None}


def called(**arguments):
    calls = [{"type": "function", "function": {"name": "look", "arguments": arguments}}]
    return {"role": "assistant", "content": "", "tool_calls": calls}


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
    with pytest.raises(ValueError, match=r"a row is .*: None.*; expected a text, a list of"):
        content(rows_of(table)[1])


def test_an_answer_beside_messages_or_a_text_that_lack_it_is_not_left_out():
    with pytest.raises(ValueError, match=r"end in a turn of role 'user', and 'completion' beside"):
        content({"messages": ASKED, "completion": "Blue."})
    for blank in (None, float("nan")):
        assert content({"messages": ASKED, "completion": blank})[0] == ASKED
        assert content({"text": "The sky", "completion": blank})[0] == "The sky"
    assert content({"messages": ANSWERED, "completion": "Blue."})[0] == ANSWERED
    with pytest.raises(ValueError, match=r"has 'text' without the 'completion' that stands beside"):
        content({"text": "The sky is", "completion": " blue."})
    for answer in (" blue.", "blue.\n"):  # a template may have taken its white space off
        assert content({"text": "The sky is blue.", "completion": answer})[0] == "The sky is blue."


@pytest.mark.parametrize(
    "given", [ANSWERED, "Blue.", {"text": "Blue."}, {"prompt": ASKED, "completion": "Blue."}]
)
def test_what_mlflows_server_makes_arrays_of_is_the_row_that_it_was(given):
    from mlflow.utils.proto_json_utils import parse_tf_serving_input

    for inputs in (given, [given]):
        rows = rows_of(parse_tf_serving_input({"inputs": inputs}))
        assert [content(row) for row in rows] == [content(given)]


@pytest.mark.parametrize("kind", ["numpy_nullable", "pyarrow"])
def test_a_cell_is_blank_whatever_pandas_calls_that(kind):
    rows = [{"text": "Blue."}, {"messages": json.dumps(ANSWERED)}]
    table = pd.DataFrame(rows).convert_dtypes(dtype_backend=kind)
    assert table["messages"][0] is pd.NA
    assert [content(row)[0] for row in rows_of(table)] == ["Blue.", ANSWERED]


@pytest.mark.parametrize(
    "form",
    [
        lambda table: table,
        Dataset.to_iterable_dataset,
        Dataset.to_pandas,
        lambda table: table.data.table,
        lambda table: table.data.table.combine_chunks().to_batches()[0],
    ],
    ids=["dataset", "stream", "frame", "arrow", "batch"],
)
def test_keys_that_only_other_rows_of_a_table_have_are_none_of_a_rows_own(form):
    rows = [
        {"messages": [*ASKED, called(days=3)], "chat_template_kwargs": {"enable_thinking": False}},
        {"messages": [*ASKED, called(city="Rome")], "chat_template_kwargs": {"date": "today"}},
    ]
    table = Dataset.from_list(rows)
    assert table[1]["chat_template_kwargs"]["enable_thinking"] is None
    given = rows_of(form(table))
    for (messages, options), row in zip(map(content, given), rows, strict=True):
        call = messages[1]["tool_calls"][0]["function"]
        assert call["arguments"] == row["messages"][1]["tool_calls"][0]["function"]["arguments"]
        assert options["chat_template_kwargs"] == row["chat_template_kwargs"]
