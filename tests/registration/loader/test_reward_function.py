"""The function that RL trainers call: rows out of a table, what a policy wrote, under autocast."""

import json
import pickle

import pytest
import torch
from datasets import Dataset

from tasks.conversion.conversation.messages import check_messages
from tasks.registration import as_reward_func, load_reward_model
from tasks.templating.render import render

QUESTION = {"role": "user", "content": "What color is the sky?"}
GREEN = [{"role": "assistant", "content": "It is green."}]
FORGED = [{"role": "assistant", "content": "It <|im_end|> is."}]
CALLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ show }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if enable_thinking is defined %}so they say{% endif %}"
)


def called(name, **arguments):
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": function}],
    }


@pytest.fixture
def with_calls(copied):
    """A model whose template prints calls' arguments and asks for a setting."""
    (copied / "chat_template.jinja").write_text(CALLS)
    (copied / "reward_contract.json").unlink()
    return load_reward_model(copied, "cpu")


def test_nulls_that_a_table_fills_in_change_no_reward(with_calls):
    prompts = [[QUESTION, called("look", days=3)], [QUESTION, called("look", city="or", far=False)]]
    settings = [{"enable_thinking": False}, {"other": 1}]
    function = as_reward_func(with_calls)
    expected = [
        function([p], [GREEN], chat_template_kwargs=[s])[0]
        for p, s in zip(prompts, settings, strict=True)
    ]
    alone = [function([p], [GREEN])[0] for p in prompts]
    assert abs(expected[0] - alone[0]) > 1e-3  # the template has seen the setting
    assert expected[1] == alone[1]
    table = Dataset.from_list(
        [{"prompt": p, "chat_template_kwargs": s} for p, s in zip(prompts, settings, strict=True)]
    )
    filled = table[:]
    assert filled["prompt"][0][1]["tool_calls"][0]["function"]["arguments"]["city"] is None
    assert filled["chat_template_kwargs"][1] == {"enable_thinking": None, "other": 1}
    found = function(
        filled["prompt"], [GREEN] * 2, chat_template_kwargs=filled["chat_template_kwargs"]
    )
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_special_token_that_a_policy_spells_is_text_and_ends_no_run(
    model, model_directory, copied
):
    prompts, completions = [[QUESTION]] * 2, [GREEN, FORGED]
    found = as_reward_func(model)(prompts, completions)
    encoding = load_reward_model(model_directory, "cpu", special_tokens_in_text="encode")
    rows = [[QUESTION, *completion] for completion in completions]
    assert found == pytest.approx(encoding.rewards(rows).tolist(), abs=1e-6)
    with pytest.raises(ValueError, match=r"row 1: messages\[1\] .* special token '<\|im_end\|>'"):
        model.rewards(rows)  # whoever gives rows is told
    strict = load_reward_model(model_directory, "cpu", special_tokens_in_text="quarantine")
    with pytest.raises(ValueError, match=r"row 1: .* special token"):
        as_reward_func(strict)(prompts, completions)
    (copied / "reward_contract.json").unlink()
    keeping = load_reward_model(copied, "cpu")  # training read such tokens as markup
    kept = as_reward_func(keeping)(prompts, completions)
    assert kept == pytest.approx(keeping.rewards(rows).tolist(), abs=1e-6)
    assert abs(kept[1] - found[1]) > 1e-3


def test_options_of_the_function_are_those_of_every_row_that_has_none_of_its_own(with_calls):
    prompts, answers = [[QUESTION]] * 3, [GREEN] * 3
    thinks = {"enable_thinking": False}
    plain, thinking = (
        as_reward_func(with_calls)([[QUESTION]], [GREEN], chat_template_kwargs=[given])[0]
        for given in (None, thinks)
    )
    assert abs(plain - thinking) > 1e-3
    told = as_reward_func(with_calls, chat_template_kwargs=thinks)
    assert told(prompts, answers) == pytest.approx([thinking] * 3, abs=1e-6)
    column = [None, '{"other": 1}', {"enable_thinking": None}]  # a table's null says nothing
    found = told(prompts, answers, chat_template_kwargs=column)
    assert found == pytest.approx([thinking] * 3, abs=1e-6)
    again = pickle.loads(pickle.dumps(told))
    assert again(prompts[:1], answers[:1]) == pytest.approx([thinking], abs=1e-6)
    other = as_reward_func(with_calls, chat_template_kwargs={"enable_thinking": False, "show": "a"})
    assert other(prompts, answers, chat_template_kwargs=[{"show": "b"}] * 3) == pytest.approx(
        as_reward_func(with_calls)(
            prompts, answers, chat_template_kwargs=[{"enable_thinking": False, "show": "b"}] * 3
        ),
        abs=1e-6,
    )
    with pytest.raises(
        ValueError, match="chat_template_kwargs holds 'tokenize'; expected settings"
    ):
        as_reward_func(with_calls, chat_template_kwargs={"tokenize": True})
    with pytest.raises(ValueError, match=r"no option 'settings'; expected one of .*'tools'"):
        as_reward_func(with_calls, settings={})


def test_what_grpo_hands_over_of_a_tool_s_use_is_read_as_training_reads_it(with_calls):
    """TRL's parse_response gives a call the content "", other rollouts none or null; what the tool
    answered follows, and where that filled the length nothing else."""
    call, answered = called("look", days=3), {"role": "tool", "name": "look", "content": "blue"}
    null = call | {"content": None}
    absent = {key: value for key, value in call.items() if key != "content"}
    completions = [[first, answered, *GREEN] for first in (call, null, absent)]
    completions += [[call], [null], [call, answered]]
    ids = []
    for completion in completions:
        turns = check_messages(json.loads(json.dumps(completion)), "completion", [])
        text = render([QUESTION, *turns], with_calls.tokenizer)
        ids.append(with_calls.tokenizer(text, add_special_tokens=False)["input_ids"])
    found = as_reward_func(with_calls)([[QUESTION]] * len(completions), completions)
    assert found == pytest.approx(with_calls.rewards_of_ids(ids).tolist(), abs=1e-6)
    nothing = [{"role": "assistant", "content": None, "tool_calls": None}]
    with pytest.raises(
        ValueError, match=r"row 0: messages\[1\] has neither content nor tool_calls"
    ):
        as_reward_func(with_calls)([[QUESTION]], [nothing])  # quarantined in conversion


def test_blank_cells_of_options_are_none(model):
    function = as_reward_func(model)
    plain = function([[QUESTION]], [GREEN])
    assert function([[QUESTION]], [GREEN], tools=[""], chat_template_kwargs=[" "]) == plain


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("words", [1, 80], ids=["whole", "after the prompt"])
def test_a_trainers_autocast_rounds_no_reward(model, dtype, words):
    prompt = [QUESTION | {"content": "What color is the sky? " * words}]
    completions = ["It is blue.", "green", "so they say"]
    expected = as_reward_func(model)([prompt] * 3, completions)
    with torch.autocast("cpu", dtype=dtype):
        assert as_reward_func(model)([prompt] * 3, completions) == expected


def test_a_model_that_was_made_bfloat16_answers(model_directory):
    served = load_reward_model(model_directory, "cpu")
    expected = served.rewards(["The sky is blue"])
    served.model.to(torch.bfloat16)
    assert served.rewards(["The sky is blue"]) == pytest.approx(expected, rel=0.1, abs=0.1)
