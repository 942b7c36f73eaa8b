"""Turns and roles under names of a source's own."""

import json

import pytest

from tasks.conversion import Unusable
from tasks.conversion.conversation.own_names import OwnNames
from tasks.conversion.layouts import reader, recognise
from tasks.conversion.layouts.declared import options_of
from tasks.conversion.preference.pair import checked
from tasks.errors import ParamsError

OWN = {
    "turns": {"role": "speaker", "content": "text"},
    "roles": {"customer": "user", "Agent": "assistant"},
}
PROMPT = [{"speaker": "customer", "text": "Hi", "at": None}]
ROW = {
    "prompt": PROMPT,
    "chosen": [{"speaker": "agent", "text": "Hello."}],
    "rejected": [{"speaker": "AGENT ", "text": "No."}],
}
USER = {"role": "user", "content": "Hi"}
SAID = [{"role": "assistant", "content": text} for text in ("Hello.", "No.")]


def read(layout, row, declared=OWN, columns=()):
    options = options_of("s", layout.partition(",")[0], declared)
    read_row = reader(layout, dict(columns), options)
    return [checked(pair) for pair in read_row(row)]


def test_turns_are_read_under_the_names_that_the_options_tell():
    (pair,) = read("trl", ROW)
    assert pair.prompt == [USER]
    assert [pair.chosen, pair.rejected] == [[SAID[0]], [SAID[1]]]
    implicit = {side: [*PROMPT, *ROW[side]] for side in ("chosen", "rejected")}
    (pair,) = read("trl", implicit)
    assert [pair.prompt, pair.chosen, pair.rejected] == [[USER], [SAID[0]], [SAID[1]]]


def test_they_are_found_below_other_keys_and_within_json_cells():
    row = {"talk": {"turns": PROMPT}, "better": ROW["chosen"][0], "worse": ROW["rejected"][0]}
    columns = {"prompt": "talk.turns", "chosen": "better", "rejected": "worse"}
    (pair,) = read("columns", row, columns=columns)
    assert [pair.prompt, pair.chosen, pair.rejected] == [[USER], [SAID[0]], [SAID[1]]]
    cells = {name: json.dumps(value) for name, value in ROW.items()}
    mapping = {name: name for name in ROW}
    told = OWN | {"json_columns": ["prompt", "chosen", "rejected"]}
    assert read("columns", cells, told, mapping) == [pair]
    found = recognise("s", "columns", mapping, [cells] * 3, OWN)
    assert found == "columns, JSON in prompt and chosen and rejected"
    assert read(found, cells, OWN, mapping) == [pair]
    quoted = {"prompt": "Hi", "chosen": cells["prompt"], "rejected": "No."}
    (pair,) = read("columns", quoted, OWN, mapping)
    assert pair.chosen == cells["prompt"], "a text that looks like turns stays as it is"


def test_several_answers_have_them_too():
    row = {"prompt": PROMPT, "responses": [ROW["chosen"], ROW["rejected"]], "scores": [2, 1]}
    (pair,) = read("scored", row)
    assert [pair.prompt, pair.chosen, pair.margin] == [[USER], [SAID[0]], 1]


def test_what_is_within_a_turn_is_left_as_it_is():
    call = {"name": "f", "arguments": {"speaker": "customer", "text": "x"}}
    turn = {"speaker": "agent", "text": "", "tool_calls": [{"function": call}]}
    row = OwnNames.of(**OWN).away({"a": [turn], "b": "customer", "c": [1, None]})
    assert row == {
        "a": [{"tool_calls": [{"function": call}], "role": "assistant", "content": ""}],
        "b": "customer",
        "c": [1, None],
    }


def test_the_names_that_are_told_win_and_one_of_them_is_enough():
    row = {"a": [{"role": "x", "speaker": "customer", "content": "y", "text": "z"}]}
    named = OwnNames.of(**OWN).away(row)
    assert named == {"a": [{"role": "user", "content": "z"}]}
    assert OwnNames.of({"role": "role"}, {"x": "tool"}).away(row)["a"][0]["role"] == "tool"
    assert OwnNames.of({}, {"kunde": "user"}).away({"a": [{"from": "kunde"}]}) == {
        "a": [{"from": "user"}]
    }


def test_a_row_that_needs_them_says_what_to_write():
    with pytest.raises(
        Unusable, match=r"keys 'speaker', 'text' .*options: \{turns: \{role: \.\.\."
    ):
        read("trl", ROW, {})
    with pytest.raises(Unusable, match=r"'agent', .* with options: \{roles: \{'agent': \.\.\.\}\}"):
        read("trl", ROW, {"turns": OWN["turns"], "roles": {"customer": "user"}})
    with pytest.raises(ParamsError, match=r"options\.roles\.agent: .* found 'helper'"):
        options_of("s", "trl", {"roles": {"agent": "helper"}})
    with pytest.raises(ParamsError, match=r"options\.turns\.rol"):
        options_of("s", "trl", {"turns": {"rol": "speaker"}})
