"""Conversations found in columns are those that a parser finds, and nothing else passes for one."""

import json

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.templating.replay.contents import Contents
from tasks.templating.replay.turn_spans import MOST_TURNS, ROLES, roles_of, turn_spans

WORDS = st.one_of(
    st.sampled_from(
        ["", "Hi", ' "said" \\', "\\\\", '\\"', "a\nb\t", '","content":"', "\x00\x1f", "é🦩"]
    ),
    st.text(max_size=12),
)
PLAIN = st.builds(
    lambda role, words: {"role": role, "content": words}, st.sampled_from(ROLES), WORDS
)
OTHER = st.one_of(
    st.builds(lambda words: {"role": "tool", "content": words}, WORDS),
    st.builds(lambda words: {"content": words, "role": "user"}, WORDS),
    st.builds(lambda words: {"role": "user", "content": words, "name": words}, WORDS),
    st.just({"role": "assistant", "content": None}),
    st.just({"role": "users", "content": "Hi"}),
)
LONG = st.sampled_from([MOST_TURNS, MOST_TURNS + 1]).map(
    [{"role": "system", "content": "x"}].__mul__
)
CONVERSATION = st.lists(PLAIN, max_size=4) | LONG
VALUE = st.one_of(CONVERSATION, CONVERSATION, st.lists(PLAIN | OTHER, max_size=3), WORDS, st.none())


def found(texts):
    """What columns see in each text: its messages, or None where it is something else."""
    spans = turn_spans([pa.array(texts, pa.string())])
    contents = Contents.of(spans, ~spans.odd)
    stretches, numbers = contents.stretches([b"between"])
    words = stretches.take(pa.array(numbers)).to_pylist()
    messages = []
    for n, odd in enumerate(spans.odd.tolist()):
        own = words[spans.firsts[n] : spans.firsts[n + 1]]
        roles = roles_of(int(spans.numbers[n]))
        pairs = zip(roles, own, strict=True) if not odd else ()
        messages.append(None if odd else [{"role": r, "content": c} for r, c in pairs])
    return messages


@given(st.lists(VALUE, min_size=1, max_size=12))
def test_stored_conversations_are_found_and_only_those(values):
    texts = [None if value is None else orjson.dumps(value).decode() for value in values]
    for value, messages in zip(values, found(texts), strict=True):
        plain = isinstance(value, list) and all(
            list(turn) == ["role", "content"]
            and turn["role"] in ROLES
            and turn["content"] is not None
            for turn in value
        )
        if value is None:
            assert messages == []
        elif plain and len(value) <= MOST_TURNS:
            assert messages == value
        else:
            assert messages is None


@pytest.mark.parametrize(
    "form",
    ["{}", "[[{}]]", "[{},1]", "[null,{}]", "[{},[{}]]", "[[],{}]", "[{}]]", "[{},", "[{}}}"],
)
def test_messages_that_stand_in_anything_but_one_list_are_left(form):
    turn, other = '{"role":"user","content":"x"}', '[{"role":"assistant","content":"y"}]'
    text = form.format(*[turn] * form.count("{}"))
    assert found([other, text, other, text])[1::2] == [None, None]
    assert found([other, text, other])[::2] == [json.loads(other)] * 2


@given(
    turns=st.lists(PLAIN, min_size=1, max_size=3),
    place=st.integers(0, 10_000),
    cut=st.integers(0, 3),
    put=st.text('[]{}",:\\ \x00rolecontu', max_size=3),
)
def test_a_text_that_was_changed_anywhere_is_what_a_parser_says_or_is_left(turns, place, cut, put):
    text = orjson.dumps(turns).decode()
    place %= len(text) + 1
    text = text[:place] + put + text[place + cut :]
    try:
        value = json.loads(text)
    except ValueError:
        return  # nothing of the kind is stored
    beside = orjson.dumps(turns).decode()
    for messages in (found([text])[0], found([beside, text, beside])[1]):
        assert messages is None or messages == value
