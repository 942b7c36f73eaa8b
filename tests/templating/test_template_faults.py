"""Templates that are wrong whatever the rows are, and rows that a template cannot take."""

import json

import pytest

from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, TemplateError
from tasks.model.directory import describe
from tasks.templating import TemplatingParams
from tasks.templating.renderer import Renderer
from tasks.templating.replay.delimiters import DELIMITERS
from tasks.templating.template_faults import is_prefix_stable, undefined_names
from tests.templating.families import load_tokenizer
from tests.templating.stage_runs import quarantined, read_arrow, run

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
OPENS = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def pair(*prompt, **others):
    answers = {"chosen": [assistant("blue")], "rejected": [assistant("green")]}
    return {"prompt": list(prompt or [user("Hi")])} | answers | others


@pytest.fixture
def with_template(tiny_model_directory, tmp_path):
    """The tiny model's tokenizer with another template, as the stage loads it."""

    def load(template):
        path = tmp_path / "template.jinja"
        path.write_text(template)
        return load_tokenizer(tiny_model_directory, TemplatingParams(chat_template_path=str(path)))

    return load


@pytest.fixture
def render_rows(tiny_model_directory, tmp_path):
    """Runs both stages on rows with a template."""

    def rendered(rows, template, **params):
        path = tmp_path / "template.jinja"
        path.write_text(template)
        model = describe(tiny_model_directory, {})
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        directory.mkdir()
        return run(rows, model, directory, chat_template_path=str(path), **params)

    return rendered


@pytest.mark.catalogue(102)
def test_a_template_that_opens_an_answer_unasked_is_refused(with_template):
    with pytest.raises(TemplateError, match="generation prompt without being asked"):
        with_template(CHATML + "<|im_start|>assistant\n")
    with_template(CHATML + OPENS)
    with_template("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}")  # no headers


@pytest.mark.catalogue(101)
def test_a_prompt_that_is_no_beginning_of_the_whole_is_reported(with_template):
    assert is_prefix_stable(with_template(CHATML + OPENS))
    assert not is_prefix_stable(with_template(CHATML + OPENS.replace("{% endif", "THINK{% endif")))


@pytest.mark.catalogue(105)
def test_names_that_a_template_prints_though_nothing_defines_them_are_listed(
    with_template, render_rows
):
    template = "{{ greeting }}{% if absent %}x{% endif %}" + CHATML.replace(
        "{{ m.content }}", "{{ m.content }}{{ m.sender }}"
    )
    assert undefined_names(with_template(template)) == ["greeting", "sender"]
    assert undefined_names(with_template(CHATML)) == []
    scoped = "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}"  # gone behind it
    assert undefined_names(with_template(CHATML + scoped)) == ["x"]
    rendered, _ = render_rows([pair()], template)
    assert rendered.report["undefined_in_template"] == ["greeting", "sender"]


@pytest.mark.catalogue(98)
def test_too_many_rows_that_the_template_refuses_fail_with_an_example(render_rows):
    template = (
        "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('no such words') }}"
        "{% endif %}{% endfor %}" + CHATML
    )
    rows = [pair(), pair(user("no")), pair(user("see"))]
    with pytest.raises(DataError) as caught:
        render_rows(rows, template, max_bad_fraction=0.3)
    message = str(caught.value)
    assert "source 's': 1 of 3 rows (33.33%) cannot be used" in message
    assert "more than templating.max_bad_fraction 30.00%" in message
    assert "template_error (1x), first f.jsonl row 2, chosen: the chat template refuses" in message
    assert "no such words" in message
    rendered, rows = render_rows(rows, template, max_bad_fraction=0.34)
    assert quarantined(rendered)[2][0] == "template_error"
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("thrown", "told"),
    [
        ("'{0} {1}'.format(1)", "out of range"),
        ("'a'.encode('no')", "unknown encoding: no"),
        ("m.content | dictsort", "'str' object has no attribute 'items'"),
        ("m.content | truncate(1)", "expected length >= 3, got 1"),
        ("cycler()", "at least one item"),
        ("1 // 0", "by zero"),
        ("range(10 ** 9)", "Range too big"),
    ],
)
def test_whatever_a_template_throws_concerns_the_row_alone(render_rows, thrown, told):
    throws = "{% if m.content == 'no' %}{{ " + thrown + " }}{% endif %}"
    rendered, rows = render_rows(
        [pair(), pair(user("no"))], CHATML.replace("{{ m.content", throws + "{{ m.content")
    )
    reason, message = quarantined(rendered)[2]
    assert (reason, len(rows)) == ("template_error", 1)
    assert told in message


@pytest.mark.parametrize("thrown", ["{{ 1 // 0 }}", "{{ 3 | dictsort }}", "{{ m() }}"])
def test_a_template_may_throw_at_all_conversations_but_those_of_the_rows(render_rows, thrown):
    short = "{% macro m() %}{{ m() }}{% endmacro %}{% if messages | length < 5 %}" + thrown
    five = pair(user("Hi"), assistant("Ho"), user("Hi"), assistant("Ho"))
    rendered, rows = render_rows([five], short + "{% endif %}" + CHATML)
    assert (rendered.report["undefined_in_template"], len(rows)) == ([], 1)


@pytest.mark.catalogue(58, 59, 60)
def test_turns_in_an_unusual_order_are_kept_unless_the_template_refuses_or_drops_them(render_rows):
    orders = [
        pair(),
        pair(assistant("Hello."), user("Hi")),
        pair(user("Hi"), {"role": "system", "content": "Be brief."}),
        pair(user("Hi"), user("Ho")),
        pair(user("Hi"), assistant("Ho"), *[{"role": "tool", "content": "It is."}] * 2),
    ]
    rendered, rows = render_rows(orders, CHATML + OPENS)
    assert quarantined(rendered) == {}
    assert len(rows) == 5
    strict = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}" + CHATML
    )
    refused, rows = render_rows(orders, strict)
    assert {row: reason for row, (reason, _) in quarantined(refused).items()} == {
        2: "starts_with_assistant",
        3: "system_position",
        4: "roles_do_not_alternate",
        5: "template_error",  # the results of two calls are in the usual order
    }
    assert "turns 1 and 2; join them; the chat template refuses" in quarantined(refused)[4][1]
    assert len(rows) == 1


@pytest.mark.catalogue(100)
def test_a_dropped_system_turn_is_named(render_rows):
    drops = CHATML.replace("in messages", "in messages if m.role != 'system'")
    rows = [pair(), pair({"role": "system", "content": "Be brief."}, user("Hi"))]
    rendered, _ = render_rows(rows, drops)
    reason, message = quarantined(rendered)[2]
    assert reason == "template_drops_turn"
    assert "drops turn 1 of 3 (system)" in message


@pytest.mark.parametrize("change", ["upper", "title", "capitalize"])
def test_a_turn_whose_letters_a_template_changes_is_not_dropped(render_rows, change):
    changed = CHATML.replace("m.content", f"m.content | {change}")
    assert changed != CHATML
    rendered, rows = render_rows([pair()], changed)
    assert quarantined(rendered) == {}
    assert len(rows) == 1


@pytest.mark.catalogue(104)
def test_a_rendering_that_takes_too_long_or_grows_too_large_is_quarantined(
    with_template, render_rows
):
    loops = "{% for a in range(99999) %}" * 2 + "{% endfor %}" * 2
    slow = "{% if messages[0].content == 'slow' %}" + loops + "{% endif %}" + CHATML
    renderer = Renderer(with_template(slow), "quarantine", cpu_seconds=0.2)
    row = {"format": "conversational", "tools": None, "chat_template_kwargs": None}
    row |= {name: json.dumps(value) for name, value in pair(user("slow")).items()}
    with pytest.raises(Unusable, match=r"template_timeout.*more than 0\.2 s of processor time"):
        renderer.sides(row)
    large = "{% if messages[0].content == 'large' %}{{ 'x' * 300000 }}{% endif %}" + CHATML
    rendered, rows = render_rows([pair(), pair(user("large"))], large)
    assert quarantined(rendered)[2][0] == "template_timeout"
    assert len(rows) == 1
    four = [pair(user("large")) | {"chosen": [assistant(str(i))]} for i in range(4)]
    with pytest.raises(DataError, match=r"4 rows were too much.*f\.jsonl row 5: the chat template"):
        render_rows([pair(), *four], large)


def test_a_row_that_is_itself_large_may_have_a_large_text_wherever_its_words_stand(render_rows):
    long = "so " * 100_000
    tool = {"type": "function", "function": {"name": "f", "description": long}}
    settings = {"documents": [{"text": long}]}
    rows = [pair(user(long)), pair(tools=[tool]), pair(chat_template_kwargs=settings)]
    wordy = "{{ documents[0].text if documents }}{{ tools | tojson if tools }}" + CHATML
    rendered, tokenized = render_rows(rows, wordy)
    assert quarantined(rendered) == {}
    assert len(tokenized) == 3


@pytest.mark.catalogue(97)
def test_conversations_without_a_template_fail_and_texts_do_not(tiny_model_directory, tmp_path):
    import shutil

    directory = tmp_path / "model"
    shutil.copytree(tiny_model_directory, directory)
    (directory / "chat_template.jinja").unlink()
    model = describe(directory, {})
    with pytest.raises(TemplateError, match=r"has no chat template; set templating\.chat_"):
        run([pair()], model, tmp_path)
    _, rows = run([{"prompt": "a", "chosen": " b", "rejected": " c"}], model, tmp_path / "text")
    assert len(rows) == 1


@pytest.mark.catalogue(96)
def test_a_tokenizer_without_an_end_token_fails(tiny_model_directory, tmp_path):
    import shutil

    directory = tmp_path / "model"
    shutil.copytree(tiny_model_directory, directory)
    path = directory / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in config.items() if k != "eos_token"}))
    with pytest.raises(DataError, match=r"has no EOS token.*reward is read at their last token"):
        run([pair()], describe(directory, {}), tmp_path)


def test_a_setting_of_a_row_may_have_any_name_that_a_template_reads(render_rows):
    rows = [pair(chat_template_kwargs={"tokenizer": "said"}), pair()]
    rendered, _ = render_rows(rows, "{{ tokenizer }}" + CHATML)
    texts = read_arrow(rendered.path / "texts/00000.arrow")["chosen"].to_pylist()
    assert [text[:6] for text in texts] == ["said<|", "<|im_s"]


@pytest.mark.catalogue(76)
def test_delimiters_of_other_templates_are_counted_or_quarantined(render_rows):
    each, _ = render_rows([pair(user(f"Hi {name}")) for name in DELIMITERS], CHATML)
    assert each.report["delimiters_in_text"] == dict.fromkeys(sorted(DELIMITERS), 1)
    rows = [pair(), pair(user("[INST] Hi [/INST]")), pair(user("### Response: [INST]"))]
    rendered, tokenized = render_rows(rows, CHATML)
    counts = {"### Response:": 1, "[/INST]": 1, "[INST]": 2}
    assert rendered.report["delimiters_in_text"] == counts
    assert len(tokenized) == 3
    strict, tokenized = render_rows(rows, CHATML, delimiters_in_text="quarantine")
    assert quarantined(strict)[2][0] == "delimiter_in_text"
    assert "'[/INST]', '[INST]'" in quarantined(strict)[2][1]
    assert len(tokenized) == 1
