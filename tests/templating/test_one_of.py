"""An expression of shared beginnings finds what one of the texts side by side does."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.templating.tokenizer.one_of import DEEPEST, one_of

PARTS = st.lists(st.sampled_from(["<", "|", "a", "1", "\\", "(", "]", "\n", "é", " "]), max_size=7)
TEXTS = PARTS.map("".join)


@settings(max_examples=400, deadline=None)
@given(st.sets(TEXTS.filter(bool), min_size=1, max_size=12), st.lists(TEXTS).map("".join))
def test_the_longest_is_found_at_every_place(texts, searched):
    longest_first = sorted(texts, key=lambda text: (-len(text), text))
    plain = re.compile("|".join(map(re.escape, longest_first)))
    short = re.compile(one_of([*texts]))
    searched += "".join(longest_first)
    assert [m.span() for m in short.finditer(searched)] == [
        m.span() for m in plain.finditer(searched)
    ]


@pytest.mark.slow
def test_runs_of_every_length_are_no_deeper_than_re_can_read():
    runs = [" " * n for n in range(1, 40 * DEEPEST)]
    expression = re.compile(f"({one_of(runs)})")
    assert expression.split(f"a{runs[-1]}b{runs[0]}") == ["a", runs[-1], "b", runs[0], ""]


def test_thousands_of_reserved_tokens_are_written_once_as_far_as_they_are_alike():
    reserved = [f"<|reserved_special_token_{n}|>" for n in range(6000)]
    assert len(one_of(reserved)) < sum(map(len, reserved)) / 4
    assert re.fullmatch(one_of(reserved), reserved[4321])
