"""Messages of clients and tables are read as conversion reads them before training."""

import json

import numpy as np
import pytest
from datasets import Dataset
from pandas import DataFrame

from tasks.conversion.conversation import messages as conversion
from tasks.conversion.preference import fields
from tasks.registration import as_reward_func, load_reward_model
from tasks.registration.loader import given_messages
from tests.evaluation.pieces import write_reward_model

TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
    "{% if 'tool_calls' in m %}{{ m.tool_calls | length }}{{ m.tool_calls | tojson }}{% endif %}"
    "{% if 'name' in m %}({{ m.name }}){% endif %}{% if m.weight %}!{% endif %}<|im_end|>\n"
    "{% endfor %}"
)
"""Asks whether a message has a key, as Llama's templates do."""
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": None}}}
USER = {"role": "user", "content": "What?"}
ANSWER = {"role": "assistant", "content": "It is blue."}
GIVEN = {
    "keys that are null": [USER, ANSWER | {"tool_calls": None, "name": None, "refusal": None}],
    "a legacy call that is none": [USER, ANSWER | {"function_call": {"name": None}}],
    "no calls": [USER, ANSWER | {"tool_calls": []}],
    "nulls of a call": [
        USER,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    **CALL,
                    "id": None,
                    "index": None,
                    "function": {**CALL["function"], "strict": None},
                }
            ],
        },
    ],
    "a call that hands over null": [
        USER,
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": None}}]},
    ],
    "a call without content": [USER, {"role": "assistant", "tool_calls": [CALL]}],
    "a key that no template reads": [USER, ANSWER | {"weight": 1}],
    "texts in parts": [
        {"role": "user", "content": [{"type": "text", "text": t} for t in ("Wh", "at?")]},
        ANSWER,
    ],
    "other names of roles": [{**USER, "role": " Human "}, {**ANSWER, "role": "Assistant"}],
    "a name and an empty answer": [USER | {"name": "bob"}, ANSWER | {"content": ""}],
}


def tool(name, **properties):
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.fixture(scope="module")
def served(tiny_model_directory, tmp_path_factory):
    directory = tmp_path_factory.mktemp("template")
    write_reward_model(tiny_model_directory, directory, seed=1)
    (directory / "chat_template.jinja").write_text(TEMPLATE)
    return load_reward_model(directory, "cpu")


@pytest.mark.parametrize("name", GIVEN)
def test_a_message_is_rendered_as_conversion_leaves_it_for_training(served, name):
    given = json.loads(json.dumps(GIVEN[name]))
    converted = conversion.check_messages(given, "messages", [])
    text = served.tokenizer.apply_chat_template(converted, tokenize=False)
    expected = served.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert served.token_ids(GIVEN[name]) == expected
    assert served.token_ids(converted) == expected  # what is in that form already stays


def test_a_table_fills_nulls_into_every_message_and_its_lists_are_arrays(served):
    filled = [{**message, "tool_calls": None, "name": None} for message in (USER, ANSWER)]
    table = DataFrame({"messages": [np.asarray(filled, dtype=object)]})
    assert served.predict(table) == pytest.approx(served.rewards([[USER, ANSWER]]), abs=1e-6)


def test_a_table_gives_each_tool_the_keys_of_the_others_which_say_nothing(served):
    tools = [tool("weather", city={"type": "string"}), tool("sum", of={"default": None})]
    table = Dataset.from_list([{"prompt": [USER], "tools": [each]} for each in tools])
    filled = table["tools"][:]
    assert filled[0][0]["function"]["parameters"]["properties"]["of"] is None
    expected = [
        served.token_ids({"messages": [USER, ANSWER], "tools": json.loads(fields.tools_of([each]))})
        for each in tools
    ]
    rows = [{"messages": [USER, ANSWER], "tools": each} for each in filled]
    assert served.ids_of_rows(rows) == expected
    found = as_reward_func(served)(table["prompt"][:], [[ANSWER]] * 2, tools=filled)
    assert found == served.rewards_of_ids(expected).tolist()
    function = as_reward_func(served, tools=tools[:1])  # for rows that have none of their own
    assert function([[USER]] * 2, [[ANSWER]] * 2, tools=[None, filled[1]]) == found


def test_roles_and_keys_are_those_of_conversion():
    for name in ("ROLES", "ROLE_MAP", "KEYS", "TEXT_KEYS"):
        assert getattr(given_messages, name) == getattr(conversion, name)
