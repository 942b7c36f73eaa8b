"""Tools, calls and tool results: they reach the model, or the row says why it was left out."""

import json
from copy import deepcopy

import pytest
from transformers import AutoTokenizer

from tasks.registration.loader.row_text import RowTexts
from tasks.templating.render import render
from tasks.templating.tokenizer.plain_tokenizer import plain_tokenizer
from tasks.templating.traced.probe import TemplateProbe
from tests.templating.families import NEEDS_DATE, build_family
from tests.templating.stage_runs import DAY, quarantined, run

USER = {"role": "user", "content": "How warm is it in Rome?"}
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks it up.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
RESULT = {"role": "tool", "name": "look_up", "tool_call_id": "abcdefghi", "content": "31 degrees"}


def call(city="Rome", arguments=None):
    function = {"name": "look_up", "arguments": arguments or {"city": city}}
    calls = [{"id": "abcdefghi", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def says(text):
    return {"role": "assistant", "content": text}


ROWS = [
    {
        "prompt": [USER, call(), RESULT],
        "chosen": [says("31 degrees.")],
        "rejected": [says("Cold.")],
        "tools": [TOOL],
    },
    {
        "prompt": [USER],
        "chosen": [call("Rome")],
        "rejected": [call("Paris")],
        "tools": json.dumps([TOOL]),
    },
    {
        "chosen": [USER, call(), RESULT, says("31.")],
        "rejected": [USER, call(), RESULT, says("13.")],
        "tools": [TOOL],
    },
]
PLAIN = {"prompt": [USER], "chosen": [says("31.")], "rejected": [says("13.")]}


def reasons_of(tmp_path, template, rows):
    """The quarantine of the rows under this template; a plain row keeps the stage going."""
    model = build_family("chatml", tmp_path / "model")
    path = tmp_path / "given.jinja"
    path.write_text(template)
    rendered, _ = run([*rows, PLAIN], model, tmp_path, chat_template_path=str(path))
    return quarantined(rendered)


@pytest.mark.parametrize("name", ["llama3", "mistral", "qwen3", "granite", "harmony"])
def test_tools_and_calls_go_all_the_way_and_the_ids_are_the_tokenizers_own(name, tmp_path):
    model = build_family(name, tmp_path / "model")
    rendered, rows = run(ROWS, model, tmp_path, date=DAY if name in NEEDS_DATE else None)
    assert quarantined(rendered) == {}
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    tokenizer.chat_template = (rendered.path / "chat_template.jinja").read_text("utf-8")
    for given, row in zip(ROWS, rows, strict=True):
        for side in ("chosen", "rejected"):
            conversation = [*given.get("prompt", []), *given[side]]
            expected = tokenizer.apply_chat_template(conversation, tools=[TOOL], return_dict=False)
            assert row[f"{side}_input_ids"] == expected


TURNS = "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% endfor %}"
NAMES = "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{% endfor %}{% endfor %}"  # noqa: E501
CALLS = "{% for m in messages %}[{{ m.role }}]{{ m.content or '' if m.role != 'tool' else '' }}{{ m.tool_calls | tojson if m.tool_calls else '' }}{% endfor %}"  # noqa: E501
WITH_NAMES = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        (TURNS, "drops the tools that a row declares"),
        (WITH_NAMES + CALLS, "drops the parameters of the tools"),
        ("{{ tools | tojson }}" + TURNS, "drops the tool calls of turn 2 of 4 (assistant)"),
        ("{{ tools | tojson }}" + NAMES, "drops the arguments of the tool calls of turn 2 of 4"),
        ("{{ tools | tojson }}" + CALLS, "drops the tool result, turn 3 of 4 (tool)"),
    ],
)
def test_a_template_that_loses_a_part_of_tool_calling_is_named_with_the_part(
    tmp_path, template, sentence
):
    reason, message = reasons_of(tmp_path, template, ROWS[:1])[1]
    assert reason == "template_drops_tools"
    assert sentence in message
    assert "set templating.chat_template_path" in message


def test_a_template_that_takes_one_call_loses_the_second_and_only_rows_with_two_are_left_out(
    tmp_path,
):
    first = "{{ tools | tojson if tools }}{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{{ m.tool_calls[0] | tojson if m.tool_calls else '' }}{% endfor %}"  # noqa: E501
    two = call()
    two["tool_calls"] = [*two["tool_calls"], *call("Oslo")["tool_calls"]]
    both = {**ROWS[0], "prompt": [USER, two, RESULT, RESULT]}
    found = reasons_of(tmp_path, first, [ROWS[0], both])
    assert list(found) == [2]
    assert "drops the tool calls of turn 2 of 5" in found[2][1]


def test_arguments_as_json_text_are_probed_as_text(tmp_path):
    model = build_family("chatml", tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments }}{% endfor %}"
        "{% endfor %}"
    )
    probe = TemplateProbe(tokenizer)
    assert probe.lost([USER, call(arguments='{"city": "Rome"}')]) is None
    model = build_family("qwen3", tmp_path / "qwen3")
    row = {"prompt": [USER], "chosen": [call(arguments='{"city": "Rome"}')]}
    row |= {"rejected": [call(arguments='{"city":  "Oslo"}')], "tools": [TOOL]}
    rendered, rows = run([row], model, tmp_path / "run")
    assert (quarantined(rendered), len(rows)) == ({}, 1)


FLAT_CALL = {"role": "assistant", "content": None}
FLAT_CALL |= {"tool_calls": [{"name": "look_up", "arguments": {"city": "Rome"}}]}
FLAT_TOOL = {"name": "look_up", "parameters": {"properties": {"city": {"type": "string"}}}}
SAID_OR_CALLED = "{% for m in messages %}{% if m.content %}{{ m.content }}{% else %}{% for c in m.tool_calls %}%s{% endfor %}{% endif %}{% endfor %}"  # noqa: E501


@pytest.mark.parametrize(
    ("template", "turn", "tools", "lost"),
    [
        ("{{ c.name }}{{ c.arguments | tojson }}", FLAT_CALL, None, None),
        ("{{ c.name }}", FLAT_CALL, None, "the arguments of the tool calls of turn 2"),
        ("{{ c.function.name }}", call(arguments='{"a": 1}'), None, "the arguments of the tool"),
        (
            "{{ c.function.name + (c.function.arguments + '')[:0] }}",
            call(arguments='{"a": 1}'),
            None,
            "the arguments of the tool calls",
        ),
        (
            "{{ tools[0].name }}{{ tools[0].parameters | tojson }}{{ c | tojson }}",
            FLAT_CALL,
            [FLAT_TOOL],
            None,
        ),
        (
            "{{ tools[0].parameters | tojson }}{{ c | tojson }}",
            FLAT_CALL,
            [FLAT_TOOL],
            "the tools that a row declares",
        ),
    ],
)
def test_calls_and_tools_are_looked_for_where_they_are_written(
    tmp_path, template, turn, tools, lost
):
    tokenizer = plain_tokenizer(build_family("chatml", tmp_path / "model").path)
    tokenizer.chat_template = SAID_OR_CALLED.replace("%s", template)
    found = TemplateProbe(tokenizer).lost([USER, turn, RESULT, says("31.")], tools)
    assert found is None if lost is None else lost in found.message
    turn = deepcopy(turn)
    turn["tool_calls"][0].get("function", turn["tool_calls"][0])["arguments"] = ""  # for none
    found = TemplateProbe(tokenizer).lost([USER, turn, RESULT, says("31.")], tools)
    assert found is None or lost == "the tools that a row declares"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{{ m.content }}", "[user]How warm is it in Rome?[assistant][assistant]31."),
        ("{% if m.content is defined %}!{% endif %}", "[user]![assistant][assistant]!"),
    ],
)
def test_a_content_that_is_null_is_none_in_training_in_a_script_and_when_served(
    tmp_path, content, expected
):
    build_family("chatml", tmp_path / "model")
    template = f"{{% for m in messages %}}[{{{{ m.role }}}}]{content}{{% endfor %}}"
    (tmp_path / "model" / "chat_template.jinja").write_text(template)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    talk = [USER, call(), says("31.")]
    by_stage = render(talk, plain_tokenizer(tmp_path / "model"))
    assert by_stage == expected == render(talk, tokenizer)
    assert RowTexts(tokenizer, "quarantine")._conversation(talk, {})[0] == expected


def test_tests_of_content_inside_templates_give_no_false_alarm(tmp_path):
    model = build_family("qwen3", tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    thinks = says("<think>\nhm\n</think>\n\n31.")
    assert TemplateProbe(tokenizer).lost([USER, thinks, USER, says("31.")]) is None
    # Shows an answer only once it has thought; refuses thoughts of users.
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}"
        "{% elif '</think>' in m.content %}{{ m.content.split('</think>')[-1] }}{% endif %}"
        "{% endfor %}"
    )
    assert TemplateProbe(tokenizer).lost([USER, thinks]) is None
    # A template that refuses marked text cannot be judged by it, and the row itself renders.
    tokenizer.chat_template = (
        "{% for m in messages %}{% if 'mark' in m.content %}{{ raise_exception('no marks') }}"
        "{% endif %}{{ m.content }}{% endfor %}"
    )
    assert TemplateProbe(tokenizer).lost([USER, thinks]) is None
