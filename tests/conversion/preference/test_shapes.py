"""The shapes of preference data, and the prompt that two answers share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.conversion import extract_prompt, is_conversational, maybe_extract_prompt

USER = {"role": "user", "content": "What color is the sky?"}
BLUE = {"role": "assistant", "content": "It is blue."}
GREEN = {"role": "assistant", "content": "It is green."}


def test_conversation_is_recognised_in_any_column_whatever_the_order():
    assert is_conversational({"prompt": "What color?", "chosen": [USER, BLUE]})
    assert is_conversational({"chosen": [USER, BLUE], "prompt": "What color?"})
    assert is_conversational({"messages": [USER, BLUE]})
    assert not is_conversational({"prompt": "The sky is", "completion": " blue."})
    assert not is_conversational({"tools": [USER], "prompt": []})


def test_prompt_of_a_conversation_is_its_common_beginning():
    example = {"chosen": [USER, BLUE], "rejected": [USER, GREEN], "id": 7}
    expected = {"prompt": [USER], "chosen": [BLUE], "rejected": [GREEN], "id": 7}
    assert extract_prompt(example) == expected


@pytest.mark.parametrize(
    ("chosen", "rejected", "prompt"),
    [
        ([USER, BLUE], [USER, BLUE], [USER]),  # identical: one message stays on each side
        ([USER, BLUE], [USER, BLUE, USER, GREEN], [USER]),  # one is a prefix of the other
        ([BLUE], [GREEN], []),
        ([], [USER, BLUE], []),
    ],
)
def test_each_side_of_a_conversation_keeps_a_message(chosen, rejected, prompt):
    split = extract_prompt({"chosen": chosen, "rejected": rejected})
    assert split["prompt"] == prompt
    assert prompt + split["chosen"] == chosen
    assert prompt + split["rejected"] == rejected


@pytest.mark.parametrize(
    ("chosen", "rejected", "prompt"),
    [
        ("The sky is blue.", "The sky is green.", "The sky is"),
        ("The sky is blue.", "The sky is bright.", "The sky is"),  # not "The sky is b"
        ("The sky is", "The sky is blue.", "The sky"),  # a prefix keeps its last word
        ("The sky is ", "The sky is blue.", "The sky"),  # trailing space: not blank answers
        ("The sky is", "The sky is ", "The sky"),
        ("The sky", "The sky", "The"),  # identical
        ("The  sky", "The  sea", "The"),  # the whole run of spaces belongs to the answer
        ("Hi \nyes", "Hi \n\nno", "Hi"),
        ("Hi yes", "Hi\nno", "Hi"),
        ("blue", "green", ""),
        (" blue", " green", ""),
        ("blue", "blue sky", ""),
        ("", "blue", ""),
        ("", "", ""),
        ("  ", "  ", ""),
        ("\n\nHuman: Hi\n\nAssistant: Yes", "\n\nHuman: Hi\n\nAssistant: No",
         "\n\nHuman: Hi\n\nAssistant:"),
    ],
)  # fmt: skip
def test_prompt_of_a_text_ends_where_a_word_ends(chosen, rejected, prompt):
    for one, other in ((chosen, rejected), (rejected, chosen)):
        split = extract_prompt({"chosen": one, "rejected": other})
        assert split == {
            "prompt": prompt,
            "chosen": one[len(prompt) :],
            "rejected": other[len(prompt) :],
        }


TEXTS = st.text(alphabet="ab .\n", max_size=12)


@given(TEXTS, TEXTS, TEXTS)
def test_extracted_text_prompt_joins_to_what_it_was(start, a, b):
    chosen, rejected = start + a, start + b
    split = extract_prompt({"chosen": chosen, "rejected": rejected})
    prompt = split["prompt"]
    assert prompt + split["chosen"] == chosen
    assert prompt + split["rejected"] == rejected
    if prompt:
        for answer in (split["chosen"], split["rejected"]):
            assert answer[0].isspace()
            assert answer.strip()
        assert not prompt[-1].isspace()
        # No longer prompt keeps the rule: every later gap leaves a side blank or is not shared.
        for end in range(len(prompt) + 1, len(chosen)):
            starts_a_gap = chosen[end].isspace() and not chosen[end - 1].isspace()
            shared = rejected.startswith(chosen[:end]) and rejected[end : end + 1].isspace()
            both_go_on = chosen[end:].strip() and rejected[end:].strip()
            assert not (starts_a_gap and shared and both_go_on)


MESSAGES = st.lists(st.sampled_from([USER, BLUE, GREEN]), max_size=4)


@given(MESSAGES, MESSAGES, MESSAGES)
def test_extracted_messages_join_to_what_they_were(start, a, b):
    chosen, rejected = start + a, start + b
    split = extract_prompt({"chosen": chosen, "rejected": rejected})
    assert split["prompt"] + split["chosen"] == chosen
    assert split["prompt"] + split["rejected"] == rejected
    assert bool(split["chosen"]) == bool(chosen)
    assert bool(split["rejected"]) == bool(rejected)


def test_explicit_prompt_and_other_types_come_back_equal():
    explicit = {"prompt": [USER], "chosen": [BLUE], "rejected": [GREEN]}
    assert maybe_extract_prompt(explicit) == explicit
    assert maybe_extract_prompt({"prompt": "a", "completion": "b"}) == {
        "prompt": "a",
        "completion": "b",
    }
    implicit = {"chosen": [USER, BLUE], "rejected": [USER, GREEN]}
    assert maybe_extract_prompt(implicit) == explicit
