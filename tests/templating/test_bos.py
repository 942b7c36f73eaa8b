"""What is wrong with the beginning of a conversation is found by a quick look as by a whole one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.templating.tokenizer.bos import begins_badly, bos_problem


@pytest.mark.parametrize("bos", ["<s>", "<｜begin▁of▁sentence｜>"])
@given(parts=st.lists(st.integers(0, 8), max_size=6))
def test_a_quick_look_at_the_beginning_sees_what_the_whole_text_tells(bos, parts):
    pieces = (bos, bos, " ", "\n", "\u3000", "a", "é", bos[:-1], bos[1:])
    text = "".join(pieces[n] for n in parts)
    assert begins_badly(text.encode(), bos) == (bos_problem(text, bos) is not None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<s>Hi", None),
        (" <s>\nHi<s>", None),  # a later one is somebody's own words
        ("<s><s>Hi", "writes <s> twice"),
        ("\n<s> <s>Hi", "writes <s> twice"),
        ("Hi <s><s>", "writes no <s> here"),
        ("Hi", "writes no <s> here"),
    ],
)
def test_a_conversation_begins_with_one_bos(text, told):
    problem = bos_problem(text, "<s>")
    assert (told in problem) if told else problem is None
