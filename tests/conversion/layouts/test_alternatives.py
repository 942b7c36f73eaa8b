"""A mapped column is what is read, whatever the row says in other ways."""

import pytest

from tests.conversion.messages import assistant, user


def talk(question, answer):
    return [user(question), assistant(answer)]


ASKED = {"prompt": "q", "response1": "a", "response2": "b"}
CASES = {
    "unpaired": (
        [
            {"messages": talk("x", "y"), "question": "q", "answer": "a", "label": True},
            {"messages": talk("x", "z"), "question": "q", "answer": "b", "label": False},
        ],
        {"prompt": "question", "completion": "answer"},
    ),
    "distilabel": (
        [{"instruction": "q", "generations": ["b", "a"], "ratings": [2, 1], "mine": [3, 5]}],
        {"rating": "mine"},
    ),
    "helpsteer": ([ASKED | {"preference_strength": 2, "s": -2}], {"overall_preference": "s"}),
    "sharegpt_ranking": (
        [
            {
                "conversations": [{"from": "human", "value": "x"}],
                "chat": [{"from": "human", "value": "q"}],
                "chosen": "a",
                "rejected": "b",
            }
        ],
        {"messages": "chat"},
    ),
    "arena": (
        [
            {"winner": "model_a", "prompt": "q", "response_1": "x", "response_2": "y"}
            | {"model_a": "m", "model_b": "n", "ra": "a", "rb": "b"}
        ],
        {"response_a": "ra", "response_b": "rb"},
    ),
    "scored": (
        [
            {"prompt": "q", "responses": ["x", "y"], "scores": [1, 2], "text": "b", "s": 1},
            {"prompt": "q", "responses": ["x", "z"], "scores": [1, 2], "text": "a", "s": 2},
        ],
        {"response": "text", "score": "s"},
    ),
    "stepwise": (
        [
            {"prompt": "q", "completions": ["b"], "labels": [True], "wrong": [1]},
            {"prompt": "q", "completions": ["a"], "labels": [True], "wrong": []},
        ],
        {"error_steps": "wrong"},
    ),
    "ms_swift": (
        [{"messages": talk("q", "a"), "rejected_messages": talk("q", "x"), "worse": "b"}],
        {"rejected_response": "worse"},
    ),
}


@pytest.mark.parametrize("layout", CASES)
def test_what_is_mapped_is_read(convert, pairs_of, layout, caplog):
    caplog.set_level("INFO")
    rows, mapping = CASES[layout]
    (pair,) = pairs_of(convert(rows, layout=layout, columns=mapping))

    def said(value):
        return value if isinstance(value, str) else value[-1]["content"]

    assert [said(pair[name]) for name in ("prompt", "chosen", "rejected")] == ["q", "a", "b"]
    assert f"columns that layout {layout!r} does not read" in caplog.text
