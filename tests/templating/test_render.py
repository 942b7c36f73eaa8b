"""Rendering: the user's guide's shapes, and templates that would lose or change something."""

import json

import pytest

from tasks.errors import TemplateError
from tasks.templating import TemplatingParams, apply_chat_template, render
from tasks.templating.environment import compiled
from tasks.templating.template import pin
from tasks.templating.traced.probe import TemplateProbe
from tests.templating.families import load_tokenizer

USER = {"role": "user", "content": "What color is the sky?"}
BLUE = {"role": "assistant", "content": "It is blue."}
GREEN = {"role": "assistant", "content": "It is green."}
TURN_USER = "<|im_start|>user\nWhat color is the sky?<|im_end|>\n"
OPEN = "<|im_start|>assistant\n"
SAYS = "{{ messages[0].content }}"

STRIPS_THINKING = (
    "{%- for m in messages %}{%- set text = m.content %}"
    "{%- if m.role == 'assistant' and not loop.last %}"
    "{%- set text = m.content.split('</think>')[-1] %}{%- endif %}"
    "{{- '<' + m.role + '>' + text }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<assistant>THINK:' }}{% endif %}"
)


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ({"messages": [USER, BLUE]}, {"text": TURN_USER + OPEN + "It is blue.<|im_end|>\n"}),
        ({"prompt": [USER]}, {"prompt": TURN_USER + OPEN}),
        (
            {"prompt": [USER], "completion": [BLUE], "label": True},
            {
                "prompt": TURN_USER + OPEN,
                "completion": "It is blue.<|im_end|>\n",
                "label": True,
            },
        ),
        (
            {"prompt": [USER], "chosen": [BLUE], "rejected": [GREEN]},
            {
                "prompt": TURN_USER + OPEN,
                "chosen": "It is blue.<|im_end|>\n",
                "rejected": "It is green.<|im_end|>\n",
            },
        ),
        (
            {"chosen": [USER, BLUE], "rejected": [USER, GREEN]},
            {
                "chosen": TURN_USER + OPEN + "It is blue.<|im_end|>\n",
                "rejected": TURN_USER + OPEN + "It is green.<|im_end|>\n",
            },
        ),
        *(
            (
                {"prompt": nothing, "chosen": [USER, BLUE]},
                {"prompt": "", "chosen": TURN_USER + OPEN + "It is blue.<|im_end|>\n"},
            )
            for nothing in ([], None)  # as in a table of which some rows have a prompt
        ),
        ({"prompt": "text", "chosen": " a", "rejected": " b"}, None),
    ],
)
def test_every_shape_becomes_its_standard_format(tiny_tokenizer, example, expected):
    assert apply_chat_template(example, tiny_tokenizer) == (expected or example)


def test_prompt_and_answer_join_to_the_whole_even_where_the_template_opens_otherwise(
    tiny_model_directory,
):
    tokenizer = load_tokenizer(tiny_model_directory, TemplatingParams())
    tokenizer.chat_template = STRIPS_THINKING
    example = {"prompt": [USER], "chosen": [BLUE], "rejected": [GREEN]}
    rendered = apply_chat_template(example, tokenizer)
    for side in ("chosen", "rejected"):
        assert rendered["prompt"] + rendered[side] == render([USER, *example[side]], tokenizer)
    assert rendered["prompt"] == "<user>What color is the sky?<assistant>"


@pytest.mark.catalogue(100)
def test_a_template_that_drops_a_turn_is_found_by_the_shape(tiny_model_directory):
    tokenizer = load_tokenizer(tiny_model_directory, TemplatingParams())
    tokenizer.chat_template = "{{ messages[-2].content }}|{{ messages[-1].content }}"
    probe = TemplateProbe(tokenizer)
    assert probe.lost([USER, BLUE]) is None
    lost = probe.lost([USER, BLUE, USER, GREEN])
    assert lost.reason == "template_drops_turn"
    assert "drops turn 1 of 4 (user)" in lost.message
    probe.lost([USER, GREEN])
    assert len(probe.answers) == 2


@pytest.mark.catalogue(103)
def test_the_clock_is_pinned_or_refused():
    import datetime

    template = "{{ strftime_now('%d %b %Y') }}{% if strftime_now is defined %}x{% endif %}"
    pinned = pin(template, datetime.date(2026, 1, 2))
    assert pinned == "{{ '02 Jan 2026' }}{% if strftime_now is defined %}x{% endif %}"
    with pytest.raises(TemplateError, match=r"strftime_now.*set templating\.date"):
        pin(template, None)
    with pytest.raises(TemplateError, match="random"):
        pin("{{ [1, 2] | random }}", None)


def test_a_format_of_the_clock_is_read_as_jinja_reads_it():
    import datetime

    day = datetime.date(2026, 1, 2)
    for said, expected in (
        (r"'Today:\n%d\t%b'", "Today:\n02\tJan"),
        (r'"it\'s \"%d\" \u00e9 é 🦩"', 'it\'s "02" é é 🦩'),
        (r"'%Y\\n'", r"2026\n"),
    ):
        assert compiled(pin(f"{{{{ strftime_now({said}) }}}}", day)).render() == expected
    for said, told in ((r"'%d \x'", "does not compile: line 1"), (r"'\ud83d'", "lone surrogate")):
        with pytest.raises(TemplateError, match=told):
            pin(f"{{{{ strftime_now({said}) }}}}", day)


@pytest.mark.catalogue(99)
def test_a_template_that_does_not_compile_is_refused_with_its_line(tiny_model_directory, tmp_path):
    path = tmp_path / "broken.jinja"
    params = TemplatingParams(chat_template_path=str(path))
    for text, told in (
        ("{{ messages }}\n{% if %}", "line 2"),
        ("a\u2028b\x0c\r\n{% if %}\n", r"line 2: .*; the line is '\{% if %\}'$"),
        ("{{ messages }}\n{{ messages | from_json }}", "line 2: No filter named 'from_json'"),
        ("{{ messages }}\n{{ '\\ud83d' }}", "a lone surrogate in line 2"),
        ("{{ messages }}{% break %}", "does not compile: 'break' outside loop; mend it"),
        ("{{ " + "(" * 999 + "1" + ")" * 999 + " }}", "does not compile: maximum recursion depth"),
    ):
        path.write_text(text)
        with pytest.raises(TemplateError, match=told):
            load_tokenizer(tiny_model_directory, params)
    path.write_bytes("{{ 'é' }}".encode("latin-1"))
    with pytest.raises(TemplateError, match=r"broken\.jinja is not UTF-8: .* at byte 4; save it"):
        load_tokenizer(tiny_model_directory, params)
    path.write_text("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")
    with pytest.raises(TemplateError, match="calls itself without an end"):
        render([USER], load_tokenizer(tiny_model_directory, params))


def test_a_byte_order_mark_before_a_template_is_not_part_of_it(tiny_model_directory, tmp_path):
    path = tmp_path / "t.jinja"
    path.write_text("{{ messages[0].content }}", "utf-8-sig")
    params = TemplatingParams(chat_template_path=str(path))
    assert render([USER], load_tokenizer(tiny_model_directory, params)) == USER["content"]


def test_the_path_may_be_a_tokenizer_directory_old_or_new(tiny_model_directory, tmp_path):
    params = TemplatingParams(chat_template_path=str(tmp_path))
    settings = tmp_path / "tokenizer_config.json"
    for content in (None, "{", "[]", '{"eos_token": "x"}', '{"chat_template": null}'):
        settings.write_text(content) if content else settings.unlink(missing_ok=True)
        with pytest.raises(TemplateError, match="holds no chat template; give a Jinja file, or"):
            load_tokenizer(tiny_model_directory, params)
    of_tools = {"name": "tool_use", "template": "{{ tools }}"}
    for template in (SAYS, [{"name": "default", "template": SAYS}, of_tools]):
        settings.write_text(json.dumps({"chat_template": template}), "utf-8")
        assert render([USER], load_tokenizer(tiny_model_directory, params)) == USER["content"]
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].role }}")
    assert render([USER], load_tokenizer(tiny_model_directory, params)) == "user"


def test_generation_blocks_of_transformers_are_accepted(tiny_model_directory, tmp_path):
    path = tmp_path / "t.jinja"
    path.write_text("{% generation %}{{ messages[0].content }}{% endgeneration %}")
    params = TemplatingParams(chat_template_path=str(path))
    assert render([USER], load_tokenizer(tiny_model_directory, params)) == USER["content"]
