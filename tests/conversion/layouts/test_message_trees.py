"""Conversations that branch: what is compared in them, and what is left out of them."""

import pytest

from tasks.conversion.layouts import recognise
from tests.conversion.layouts.test_public_layouts import pairs_of_rows, refused, reply, said


def tree(*replies, **more):
    return {"prompt": {"text": "Hi", "role": "prompter", "replies": [*replies], **more}}


def test_every_message_of_a_tree_with_several_answers_is_a_comparison_of_its_own():
    asked = {"text": "So?", "role": "prompter", "replies": [reply("Yes.", 1), reply("Ho.", 0)]}
    row = tree(
        reply("Hello.", 0, replies=[asked]),
        reply("No.", 1),
        reply("Go.", 2, replies=[{"text": "Why?", "role": "prompter", "replies": [reply("x", 0)]}]),
    )
    assert recognise("votes", None, {}, [row]) == "message_trees"
    pairs, others = pairs_of_rows("message_trees", [row])
    assert not others
    found = [([m["content"] for m in p.prompt], said(p.chosen), said(p.rejected)) for p in pairs]
    assert found == [
        *((["Hi"], "Hello.", "No."), (["Hi"], "Hello.", "Go."), (["Hi"], "No.", "Go.")),
        (["Hi", "Hello.", "So?"], "Ho.", "Yes."),
    ]
    assert [m["role"] for m in pairs[-1].prompt] == ["user", "assistant", "user"]
    one, deeper = pairs[0].comparison, pairs[-1].comparison
    assert [p.comparison for p in pairs[:3]] == [one] * 3
    assert one is not None
    assert deeper is None
    assert {p.margin for p in pairs} == {None}


def test_what_was_deleted_from_a_tree_is_left_out_with_all_below_it_and_counted():
    gone = {"text": "So?", "role": "prompter", "replies": [reply("a", 0), reply("b", 1)]}
    row = tree(
        *(reply("Hello.", 0), reply("No.", 1), reply("Spam", 2, deleted=True, replies=[gone])),
        *(reply("Worse", 3, review_result=False), reply("New", None), reply("Odd", "last")),
        "not a message",
    )
    pairs, others = pairs_of_rows("message_trees", [row])
    assert [(said(p.chosen), said(p.rejected)) for p in pairs] == [("Hello.", "No.")]
    assert [(bad.reason, bad.field) for bad in others] == [
        *(("unrated", "prompt.replies[2]"), ("unrated", "prompt.replies[3]")),
        ("wrong_type", "prompt.replies[6]"),
        *(("unrated", "prompt.replies[4].text"), ("bad_score", "prompt.replies[5].rank")),
    ]


@pytest.mark.parametrize(
    ("row", "reason", "field"),
    [
        (tree(reply("Hello.", 0)), "unpaired_alone", "completion"),
        (tree(reply("a", 0), reply("b", 0)), "tie", "score"),
        (tree(deleted=True), "unrated", "prompt"),
        (tree(role="system"), "unknown_role", "prompt.role"),
        (tree(text=None), "null_content", "prompt.text"),
        ({"prompt": None}, "null", "prompt"),
    ],
)
def test_a_tree_that_cannot_be_used_gets_its_reason(row, reason, field):
    assert refused("message_trees", row) == (reason, field)
