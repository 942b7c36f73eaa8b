"""The table of texts is aligned with the scores, whatever conversion's order."""

import json

import pyarrow.parquet as pq
import pytest

from tasks.errors import DataError
from tasks.evaluation.tables.texts import answer_text, prompt_text, read_texts, text_table
from tests.evaluation.pieces import conversations, write_conversion


def test_rows_come_in_the_order_asked_for_and_of_the_held_out_split(tmp_path):
    rows = conversations(9)
    write_conversion(tmp_path, rows)
    wanted = [(rows[i]["pair_id"], rows[i]["source"]) for i in (7, 2, 5)]
    table = text_table(tmp_path, wanted)
    assert table["pair_id"].to_pylist() == [pair_id for pair_id, _ in wanted]
    assert table["row"].to_pylist() == [8, 3, 6]
    pq.write_table(table, tmp_path / "texts.parquet")
    texts = read_texts(tmp_path / "texts.parquet")
    assert texts.chosen[:, 0].tolist() == [len(rows[i]["chosen"][0]["content"]) for i in (7, 2, 5)]
    assert texts.language.tolist() == ["en"] * 3


def test_a_pair_that_conversion_does_not_hold_is_named(tmp_path):
    write_conversion(tmp_path, conversations(2))
    with pytest.raises(DataError, match="holds 0 of 1 scored pairs, beef of source 'x' is missing"):
        text_table(tmp_path, [("beef", "x")])


def test_words_and_turns_of_both_formats(tmp_path):
    def turn(role, content):
        return {"role": role, "content": content}

    chat = {
        "pair_id": "1",
        "source": "a",
        "prompt": [turn("system", "Be."), turn("user", "One?"), turn("assistant", "1")],
        "chosen": [turn("user", "Two?"), turn("assistant", "**2**")],
        "rejected": [turn("user", "Two?"), turn("assistant", None)],
    }
    text = {"pair_id": "2", "source": "a", "format": "standard", "prompt": None}
    text |= {"chosen": "Sure, two", "rejected": "zwei"}
    whole = chat | {"pair_id": "3", "prompt": None}  # the answers hold the conversation
    write_conversion(tmp_path, [chat, text, whole])
    table = text_table(tmp_path, [("1", "a"), ("2", "a"), ("3", "a")])
    assert table["turns"].to_pylist() == [2, 1, 1]
    assert table["chosen_bold"].to_pylist() == [1, 0, 1]
    assert table["chosen_opening"].to_pylist() == ["none", "eager", "none"]
    assert table["rejected_characters"].to_pylist() == [0, 4, 0]
    dumped = {k: json.dumps(v) for k, v in chat.items() if k in ("prompt", "chosen", "rejected")}
    assert prompt_text(dumped) == "One?"
    assert answer_text(dumped, "chosen") == "**2**"


def test_the_words_of_a_message_in_parts_are_those_of_its_texts():
    parts = [{"type": "image"}, {"type": "text", "text": "What is this?"}]
    asked = json.dumps([{"role": "user", "content": parts}])
    assert prompt_text({"prompt": asked}) == "What is this?"
