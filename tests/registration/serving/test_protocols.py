"""What the forms of a request make of it, before there is a model."""

import pytest

from tasks.registration.serving.problems import RequestProblem
from tasks.registration.serving.protocols import OpenRlhfRequest, Query, ScoreRequest


def together(keys: list) -> list[int]:
    """For each row the first row with its key."""
    return [keys.index(key) for key in keys]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        (["p", "q", "p"], [0, 1, 0]),
        ([[{"role": "user"}], [{"role": "system"}], [{"role": "user"}]], [0, 1, 0]),
        (None, [0, 1, 2]),
        (["p", "p"], [0, 1, 2]),  # of other rows than these: nobody knows of which
    ],
)
def test_queries_of_equal_prompts_belong_together_and_none_is_lost(prompts, expected):
    rows = OpenRlhfRequest(query=["a", "b", "c"], prompts=prompts).to_score()
    assert rows.rows == [Query("a"), Query("b"), Query("c")]
    assert rows.names == ["query[0]", "query[1]", "query[2]"]
    assert together(rows.prompts) == expected


def test_one_prompt_goes_with_all_answers_and_one_answer_with_all_prompts():
    rows = ScoreRequest(queries="q: ", documents=["a", "b"]).to_score(conversational=False)
    assert (rows.rows, together(rows.prompts)) == (["q: a", "q: b"], [0, 0])
    rows = ScoreRequest(text_1=["p: ", "q: "], text_2=["a"]).to_score(conversational=False)
    assert (rows.rows, together(rows.prompts)) == (["p: a", "q: a"], [0, 1])
    assert rows.names == ["text_2[0]", "text_2[1]"]


@pytest.mark.parametrize(("prompts", "answers"), [(3, 2), (2, 3), (0, 2), (2, 0)])
def test_prompts_and_answers_that_cannot_be_paired_are_counted_out(prompts, answers):
    form = ScoreRequest(queries=["q"] * prompts, documents=["a"] * answers)
    says = f"queries has {prompts} texts and documents has {answers}; expected as many, or one of"
    with pytest.raises(RequestProblem, match=says):
        form.to_score(conversational=True)
