"""Replayed renderings are the template's own, whatever the contents; what is not followed is not
replayed."""

import itertools
import json
import random
import threading

import orjson
import pyarrow as pa
import pytest
from transformers import AutoTokenizer

from tasks.templating import TemplatingParams
from tasks.templating.render import render
from tasks.templating.renderer import Renderer
from tasks.templating.replay.conversations import Plain, conversations_of
from tasks.templating.replay.piece import pieces
from tasks.templating.replay.replaying import Replayer
from tasks.templating.shards import shard
from tasks.templating.template import with_effective_template
from tasks.templating.tokenizer.plain_files import is_plain
from tasks.templating.tokenizer.plain_tokenizer import PlainTokenizer, plain_tokenizer
from tasks.templating.tokenizer.special_tokens import special_tokens
from tasks.templating.traced.filters import ANSWERS
from tasks.templating.traced.text import replayed
from tasks.templating.traced.tracing import tracer
from tests.templating.families import FAMILIES, NEEDS_DATE, build_family, load_tokenizer
from tests.templating.stage_runs import DAY, run

NASTY = (
    *("plain words", " padded ", "\n\nlines\n\n", "\t", "x", "naïve 🦩 \u200b", "{{ messages }}"),
    *("<think>\nhm\n</think>\n\nblue", "</think>", "<think>a</think>b</think>c", "think </think> "),
    *("a'b\"c\\d", "{% raw %}", "None", "0", "false", "<|channel|>", "[INST] ### Response:"),
    *("<tool_call>\n{}\n</tool_call>", "\U0010fffe1;", "c[0]", "%s %d {0}", "a" * 300, "\x00"),
)
TEMPLATES = {
    "cuts": "{% for m in messages %}"
    "{{ m.role ~ ':' ~ m.content | trim ~ m['content'].lstrip('a') }}"
    "{% endfor %}",
    "tests": "{% for m in messages %}{% if m.content.startswith('a') or 'b' in m.content %}A"
    "{% elif m.content == 'x' %}B{% elif m.content | length > 20 %}C{% else %}D{% endif %}"
    "{{ m.content.split('</think>')[-1].rstrip() + '|' }}{% endfor %}",
    "lengths": "{% for m in messages %}{% set n = m.content | length %}{% if n == 1 %}A"
    "{% endif %}{{ n < 11 }}{{ n > 11 }}{{ 'L' if m.content | length }}{% if n == 0 %}A"
    "{% elif n <= 4 %}B{% elif n >= 300 %}C{% elif n != 11 and m.content[5:] | trim | length %}D"
    "{% elif n < 12 %}E{% endif %}{{ m.content.removeprefix('<think>') + m.content }}{% endfor %}",
    "macro": "{% macro say(m) %}<{{ m.role }}>{{ m.content }}{% endmacro %}"
    "{% for m in messages %}{% set text = say(m) %}{% if '0' in text %}zero{% endif %}{{ text }}"
    "{{ 'u' in text }}{{ say(m=m) }}{% endfor %}",
    "json": "{% for m in messages %}{{ m.content | tojson }}{{ m.content[:3] | replace('a', 'b') }}"
    "{% endfor %}",
    "types": "{% for m in messages %}{% if m.content is string and m.content is not mapping %}"
    "{{ m.content | default('none', true) }}{% endif %}{{ m.content.foo }}{% endfor %}",
    "generation": "{% for m in messages %}{% generation %}{% set x = m.content %}{{ x }}"
    "{% endgeneration %}{{ x }}{% endfor %}",
    "sums": "{% for m in messages %}{{ ('a' + m.content + ' ').strip() ~ 1 }}"
    "{{ 'b' ~ (m.content ~ ' c').strip() }}{{ 'ax' in 'a' + m.content }}"
    "{{ ('<' ~ m.content).startswith('<x') }}{% endfor %}",
    "filters": "{% for m in messages %}{% set text = m.content | trim %}"
    "{{ text | default('none', true) }}{{ text | default('none', boolean=true) }}"
    "{{ text | d('none') ~ (text | replace('a', 'b', 1)) ~ (text | trim('x')) }}"
    "{{ text | tojson(ensure_ascii=true, indent=2) }}{{ ('a-b' | replace('-', m.role)) }}"
    "{{ messages | map(attribute='content') | first }}{{ [] | tojson(indent=2) }}{% endfor %}",
    "every_test": "{% for m in messages %}"
    + "".join(f"{{{{ m.content is {name} }}}}" for name in (*ANSWERS, "eq('x')", "in(['0', 'x'])"))
    + "{{ m.content }}{{ m.content == none }}{{ m.content == 1 }}{{ m.content in [1, 'x'] }}"
    + "{% endfor %}",
    "loop": "{% for m in messages %}{% if loop.changed(m.content) %}new {% endif %}"
    "{{ m.content if loop.last or m.content != messages[-1].content }}{% endfor %}",
}
REFUSED = {
    "captured": "{% set x %}{{ messages[0].content }}{% endset %}{{ 'b' in x }}",
    "filtered": "{% filter upper %}{{ messages[0].content }}{% endfilter %}",
    "counted": "{{ messages[0].content | length }}",
    "counted_down": "{{ 3 - messages[0].content | length }}",
    "counted_in": "{{ 1 in [messages[0].content | length] | map('string') | list }}",
    "counted_off": "{{ ['a', 'b'][messages[1].content | length] }}",
    "told_by_its_length": "{{ {11: 'x'}[messages[0].content | length] }}",
    "repeated": "{{ 'x' * (messages[0].content | length) }}",
    "measured": "{{ (messages[0].content | length).real }}",
    "ranged": "{{ range(messages[0].content | length) | list }}",
    "counted_on": "{{ messages[0].content | length + 1 }}",
    "halved": "{{ 'long' if messages[0].content | length > 1.5 }}",
    "second_piece": "{{ messages[0].content.split(' ')[1] }}",
    "pieces": "{{ messages[0].content.split(' ') | length }}",
    "encoded": "{{ messages[0].content.encode() }}",
    "stepped": "{{ messages[0].content[::1.5 | int] }}{{ messages[0].content[: 2 == 2] }}",
    "listed": "{% for c in messages[0].content %}{{ c }}-{% endfor %}",
    "looked_up": "{{ {'x': 1}[messages[0].content] }}",
    "searched_in": "{{ messages[0].content in 'a plain words b' }}",
    "compared": "{{ messages[0].content < messages[1].content }}",
    "printed": "{{ messages }}",
    "sorted": "{{ messages | map(attribute='content') | sort | join }}",
    "formatted": "{{ '%s' % messages[0].content }}",
    "indexed": "{{ messages[0].content[0] }}",
    "words": "{{ messages[0].content.split()[0] }}{{ messages[0].content.split(none)[0] }}",
    "named": "{{ messages[0].content.split(sep=' ', maxsplit=1)[0] }}",
    "from_a_place": "{{ messages[0].content.startswith('l', 1) }}",
    "with_nothing": "{{ messages[0].content == nothing }}",
    "with_pieces": "{{ messages[0].content.split(' ') == ['plain', 'words'] }}",
    "with_its_pieces": "{{ messages[0].content == messages[0].content.split(' ') }}",
    "within_pieces": "{{ 'words' in messages[0].content.split(' ') }}",
    "first_of_pieces": "{{ messages[0].content.split(' ') | first }}",
    "a_number": "{{ (messages[0].content | length) is number }}",
    "a_letter_case": "{{ messages[0].content is lower }}",
    "too_often": "{% for n in range(65) %}{{ messages[0].content[n:] == 'x' }}{% endfor %}",
    "centered": "{{ messages[0].content | center(20) }}",
    "by_a_letter": "{{ messages[0].content.replace('a', true) }}",
}


def plain(template, tokens=("<s>", "</s>")) -> PlainTokenizer:
    named = dict(zip(("bos_token", "eos_token"), tokens, strict=True))
    return PlainTokenizer(template, named, tokens, tokens, 0, 1, None, {True: [5], False: [5]})


def rows_replayed(rendered):
    return json.loads((rendered.path / "logs" / "replays.json").read_text())["rows_replayed"]


def conversation(texts):
    return [
        {"role": role, "content": text}
        for role, text in zip(itertools.cycle(("user", "assistant")), texts)
    ]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_replay_is_what_the_template_says_for_every_content(name):
    tokenizer = plain(TEMPLATES[name])
    found = tracer(TEMPLATES[name])
    given = {"tools": None, "documents": None, "add_generation_prompt": False}
    given |= dict(tokenizer.special_tokens_map)
    replays, used = [], 0
    for texts in itertools.product(NASTY, NASTY):
        messages = conversation(texts)
        expected = render(messages, tokenizer)
        answers = {t for r in replays if (t := replayed(r.replay, texts)) is not None}
        assert answers <= {expected}
        firsts = frozenset[str]().union(*(r.firsts for r in replays))
        if not any(first in text for first in firsts for text in texts):  # nothing to look for
            calm = [replayed(r.calm, texts) for r in replays if r.calm]
            assert {t for t in calm if t is not None} == answers
        used += bool(answers)
        if not answers:
            roles = [{"role": message["role"]} for message in messages]
            replays.append(found.trace(roles, texts, given))
            assert replayed(replays[-1].replay, texts) == expected
    assert used > len(NASTY)


def test_two_traces_of_one_template_at_once_do_not_mix():
    template = (
        "{% macro shown(text) %}[{{ text }}]{% endmacro %}{{ meanwhile() }}"
        "{% set text = shown(messages[0].content) %}{{ text if 'x' not in text }}"
    )
    ours, others = tracer(template), tracer(template)  # as of two threads

    def meanwhile():
        others.trace([{"role": "user"}], ["b"], {"meanwhile": str})
        return "|"

    traced = ours.trace([{"role": "user"}], ["a"], {"meanwhile": meanwhile})
    assert replayed(traced.replay, ["a"]) == "|[a]"
    assert replayed(traced.replay, ["x"]) is None  # the template does not write it


@pytest.mark.parametrize("name", REFUSED)
def test_what_looks_into_a_content_otherwise_is_not_replayed(name):
    found = tracer(REFUSED[name])
    given = {"tools": None, "documents": None, "add_generation_prompt": False}
    roles = [{"role": "user"}, {"role": "assistant"}]
    assert found is None or found.trace(roles, ["plain words", "x"], given) is None


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_replayed_and_equal_transformers(name, tmp_path):
    model = build_family(name, tmp_path / "model")
    params = TemplatingParams(date=DAY if name in NEEDS_DATE else None)
    theirs = load_tokenizer(model.path, params)
    assert is_plain(model.path)
    ours = with_effective_template(plain_tokenizer(model.path), params)
    assert ours.chat_template == theirs.chat_template
    assert special_tokens(ours) == special_tokens(theirs)
    replayer = Replayer(ours, special_tokens(ours))
    renderer = Renderer(ours, "quarantine")
    assert renderer.own == Renderer(theirs, "quarantine").own
    replayed = 0
    for texts in itertools.product(NASTY, NASTY[:8]):
        if name == "harmony" and "<|channel|>" in texts:
            continue  # the template throws
        messages = conversation(texts)
        expected = render(messages, theirs)
        assert render(messages, ours) == expected
        parts = [orjson.dumps(part).decode() for part in (messages[:1], messages[1:], messages[1:])]
        (piece,) = pieces([pa.array([part]) for part in parts])
        turns = conversations_of(piece)
        if turns.suspicious(replayer.special, piece):
            continue  # a text that holds, or could complete, a special token
        chosen, _ = Plain(piece, turns, [None], [None]).sides(0)
        found = replayer.text(chosen)
        assert found in (None, expected)
        replayed += found is not None
        replayer.learn(chosen, expected)
    assert replayed > 80


def test_tools_settings_and_roles_make_structures_of_their_own(tmp_path):
    model = build_family("qwen3", tmp_path / "model")
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    user, says = {"role": "user", "content": "What?"}, [{"role": "assistant", "content": "blue"}]
    shapes = [
        {"prompt": [user]},
        {"prompt": [user], "tools": [tool]},
        {"prompt": [{"role": "system", "content": "Be brief."}, user]},
        {"prompt": [user], "chat_template_kwargs": {"enable_thinking": False}},
        {"prompt": [user, {"role": "assistant", "content": None, "tool_calls": [
            {"type": "function", "function": {"name": "look", "arguments": {"a": 1}}}]},
            {"role": "tool", "content": "sunny"}], "tools": [tool]},
    ]  # fmt: skip
    rng = random.Random(0)
    rows = [
        shapes[n % 5] | {"chosen": says, "rejected": [{"role": "assistant", "content": text}]}
        for n, text in enumerate(rng.choice(NASTY) + f" {n}" for n in range(60))
    ]
    rendered, kept = run(rows, model, tmp_path, special_tokens_in_text="keep")
    tokenizer = AutoTokenizer.from_pretrained(model.path)
    assert len(kept) == len(rows)
    assert 20 < rows_replayed(rendered) < 50
    for row, ids in zip(rows, kept, strict=True):
        whole = [*row["prompt"], *row["rejected"]]
        settings = row.get("chat_template_kwargs", {})
        expected = tokenizer.apply_chat_template(
            whole, tools=row.get("tools"), return_dict=False, **settings
        )
        assert ids["rejected_input_ids"] == expected


def test_a_replay_that_differs_sends_the_whole_shard_to_jinja(tmp_path, monkeypatch):
    model = build_family("chatml", tmp_path / "model")
    says = [{"role": "assistant", "content": "blue"}]
    rows = [
        {"prompt": [{"role": "user", "content": f"What {n}?"}], "chosen": says}
        | {"rejected": [{"role": "assistant", "content": "green"}]}
        for n in range(1000)
    ]
    _, expected = run(rows, model, tmp_path / "first")
    true = Replayer.known
    calls = itertools.count()

    def wrong(self, plain, row):
        texts = true(self, plain, row)
        return texts if texts is None or next(calls) < 1 else (texts[0] + "!", texts[1])

    monkeypatch.setattr(Replayer, "known", wrong)
    monkeypatch.setattr(shard, "_last", threading.local())  # as in another process
    rendered, rows = run(rows, model, tmp_path / "second")
    assert rendered.report["shards_replay_differed"] == 1
    assert rows_replayed(rendered) == 0
    assert rows == expected
