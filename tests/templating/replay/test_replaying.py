"""What is learned of a template, and what is left to it: never another text than its own."""

import dataclasses

import pytest

from tasks.conversion.unusable import Unusable
from tasks.templating import TemplatingParams
from tasks.templating.replay.replaying import MOST_PATHS
from tasks.templating.shards.row_by_row import Differs
from tasks.templating.shards.shard import renderers
from tasks.templating.tokenizer.plain_tokenizer import plain_tokenizer
from tasks.templating.traced.tracing import Tracer
from tests.templating.families import build_family
from tests.templating.outcomes import outcome, table

SAYS = "{% for m in messages %}[{{ m.content }}]{% endfor %}"


@pytest.fixture(scope="module")
def chatml(tmp_path_factory):
    return plain_tokenizer(build_family("chatml", tmp_path_factory.mktemp("chatml")).path)


@pytest.fixture
def traces(monkeypatch):
    """What each trace so far has led to."""
    found = []
    trace = Tracer.trace
    monkeypatch.setattr(
        Tracer, "trace", lambda self, *given: found.append(trace(self, *given)) or found[-1]
    )
    return found


def pair(asked, chosen, rejected, **others):
    prompt = [{"role": "user", "content": asked}]
    sides = ([{"role": "assistant", "content": text}] for text in (chosen, rejected))
    return {"prompt": prompt, **dict(zip(("chosen", "rejected"), sides, strict=True)), **others}


def both_ways(tokenizer, template, rows, **params):
    """The rows' texts, how many were replayed, and by what; as they come from Jinja alone."""
    tokenizer = dataclasses.replace(tokenizer, chat_template=template)
    params = TemplatingParams(**params)
    known = renderers(tokenizer, params)
    ours, replayed = outcome(tokenizer, params, [table(rows)], replaying=True, known=known)
    alone, _ = outcome(tokenizer, params, [table(rows)], replaying=False)
    assert ours == alone
    return ours[0][0].to_pylist(), replayed, known.replayer


def test_settings_of_rows_are_variables_but_those_that_say_nothing_about_the_text(chatml):
    settings = {"padding": "p", "max_length": 3, "shown": "s", "documents": ["d"]}
    template = "{{ shown }}{{ padding }}{{ documents[0] }}{{ max_length is defined }}" + SAYS
    rows = [pair("why", "so", f"no {n}", chat_template_kwargs=settings) for n in range(20)]
    texts, replayed, _ = both_ways(chatml, template, rows)
    assert replayed == 20 - 2  # the first ones are compared
    assert texts[19]["rejected"] == "sdFalse[why][no 19]"


@pytest.mark.parametrize(
    ("template", "tries"),
    [
        ("{{ messages | map(attribute='content') | sort | join }}", 1),
        (SAYS + "{{ messages[1].content | length }}", 1),
        ("{% set all %}" + SAYS + "{% endset %}{{ all | upper }}", 0),  # not even parsed for it
    ],
)
def test_a_template_that_cannot_be_followed_is_tried_once_and_renders_each_row(
    chatml, traces, template, tries
):
    rows = [pair("what", "yes " * n, "no") for n in range(1, 20)]
    texts, replayed, _ = both_ways(chatml, template, rows)
    assert (len(texts), replayed, traces) == (19, 0, [None] * tries)


def test_a_template_of_many_ways_is_followed_on_the_first_of_them_alone(chatml, traces):
    tests = "".join(f"{{% if '{c}' in m.content %}}{c}{{% endif %}}" for c in "abcdef")
    template = f"{{% for m in messages %}}{tests}[{{{{ m.content }}}}]{{% endfor %}}"
    words = ["".join(c for n, c in enumerate("abcdef") if number >> n & 1) for number in range(64)]
    rows = [pair("?", f"{word}.", f"{word}!") for word in words] * 3
    texts, replayed, replayer = both_ways(chatml, template, rows)
    assert [len(known.paths) for known in replayer.structures.values()] == [MOST_PATHS]
    assert (len(texts), len(traces)) == (len(rows), MOST_PATHS)
    assert replayed == 2 * MOST_PATHS  # the second and the third time


def test_a_marker_in_the_first_row_hinders_none_of_the_rows_without_one(chatml, traces):
    template = SAYS.replace("]", "]{% if '</x>' in m.content %}x{% endif %}")
    rows = [pair("why", "so </x>", "no </x>"), *(pair("why", "so", f"no {n}") for n in range(99))]
    texts, replayed, _ = both_ways(chatml, template, rows)
    assert texts[0]["chosen"] == "[why][so </x>]x"
    assert [traced.calm is None for traced in traces] == [True, False]
    assert replayed == 100 - 2


def test_a_joined_row_that_the_template_refuses_is_found(chatml, monkeypatch):
    rows = [pair("why", "so", f"no {n}") for n in range(9)]
    params = TemplatingParams()
    known = renderers(chatml, params)
    outcome(chatml, params, [table(rows)], replaying=True, known=known)

    def refuse(_):
        raise Unusable("template_error", "prompt", "it refuses")

    monkeypatch.setattr(known.renderer, "sides", refuse)
    with pytest.raises(Differs):
        outcome(chatml, params, [table(rows)], replaying=True, known=known)


def test_texts_grow_no_longer_than_they_may_if_both_sides_are_as_long(chatml):
    template = "{% for n in range(50) %}" + SAYS + "{% endfor %}"
    rows = [pair("why", "so", f"no {n}") for n in range(9)]
    rows.insert(5, pair("why" * 7_000, "so", "no"))  # either would have a million characters
    texts, replayed, _ = both_ways(chatml, template, rows)
    assert (len(texts), replayed) == (9, 9 - 2)
    assert max(len(row["chosen"]) for row in texts) == 50 * len("[why][so]")
