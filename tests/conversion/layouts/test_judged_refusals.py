"""Nasty rows of judged answers, and the reason that each gets; options that a layout has not."""

import pytest

from tasks.conversion import Unusable
from tasks.conversion.layouts import check_declared
from tasks.errors import ParamsError
from tests.conversion.layouts.judged_rows import (
    BATTLE,
    JUDGED,
    KAGGLE,
    PROCESSES,
    RATED,
    SHP,
    VOTED,
    first_problem,
    items,
)
from tests.conversion.messages import assistant, user

BAD = [
    ("arena", KAGGLE | {"response_a": '["Hello.", null]', "prompt": '["Hi", "And?"]'},
     "null_content", "response_a[1]"),
    ("arena", KAGGLE | {"response_b": None}, "null", "response_b"),
    ("arena", KAGGLE | {"response_a": "Hello."}, "bad_json", "response_a"),
    ("arena", KAGGLE | {"response_a": '["\\ud83d"]'}, "bad_json", "response_a"),
    ("arena", KAGGLE | {"response_a": '{"a": 1}'}, "wrong_type", "response_a"),
    ("arena", KAGGLE | {"response_a": "[1]"}, "wrong_type", "response_a[0]"),
    ("arena", KAGGLE | {"response_a": "[]"}, "bad_transcript", "response_a"),
    ("arena", KAGGLE | {"winner_model_a": "0", "winner_tie": "1"}, "tie", "winner_tie"),
    ("arena", KAGGLE | {"winner_model_b": "1"}, "bad_label", "winner_model_a"),
    ("arena", KAGGLE | {"winner_model_a": "yes"}, "bad_label", "winner_model_a"),
    ("arena", KAGGLE | {"response_a": '[""]'}, "empty_response", "chosen"),
    ("arena", BATTLE | {"winner": "tie"}, "tie", "winner"),
    ("arena", BATTLE | {"winner": "tie (bothbad)"}, "tie", "winner"),
    ("arena", BATTLE | {"winner": "tie (inconsistent)"}, "tie", "winner"),
    ("arena", BATTLE | {"winner": "model_c"}, "bad_label", "winner"),
    ("arena", BATTLE | {"conversation_a": [user("Ho"), assistant("No.")]}, "prompts_differ",
     "chosen[0]"),
    ("arena", BATTLE | {"turn": 1, "conversation_a": [user("Hi"), "No."]}, "bad_message",
     "conversation_a[1]"),
    ("arena", BATTLE | {"turn": 1, "conversation_b": [user("Hi"), {"role": 1}]}, "bad_message",
     "conversation_b[1]"),
    ("arena", BATTLE | {"turn": 2}, "bad_label", "turn"),
    ("arena", BATTLE | {"turn": 2, "winner": "tie"}, "bad_label", "turn"),
    ("arena", BATTLE | {"turn": 2, "conversation_a": [
        *BATTLE["conversation_a"], user("And?"), assistant("No!")]}, "bad_label", "turn"),
    ("arena", VOTED | {"prompt": None}, "null", "prompt"),
    ("arena", VOTED | {"response_1": ""}, "empty_response", "rejected"),
    ("arena", VOTED | {"response_2": None}, "null", "chosen"),
    ("arena", VOTED | {"winner": None}, "bad_label", "winner"),
    ("arena", {k: v for k, v in VOTED.items() if k != "response_2"}, "missing_column",
     "response_2"),
    ("ultrafeedback", {"instruction": None, "completions": []}, "null", "instruction"),
    ("ultrafeedback", {"instruction": "Hi", "completions": []}, "unpaired_alone", "completion"),
    ("ultrafeedback", {"instruction": "Hi", "completions": "x"}, "bad_json", "completions"),
    ("helpsteer", RATED | {"response": " "}, "empty_response", "response"),
    ("helpsteer", RATED | {"helpfulness": None}, "unrated", "helpfulness"),
    ("helpsteer", RATED | {"helpfulness": "high"}, "bad_score", "helpfulness"),
    ("helpsteer", {"prompt": "Hi", "response_1": "a", "response_2": "b", "preference_strength": 0},
     "tie", "preference_strength"),
    ("helpsteer", {"prompt": "Hi", "response_1": "a", "response_2": "b",
                   "preference_strength": -100}, "bad_score", "preference_strength"),
    ("shp", SHP | {"labels": 2}, "bad_label", "labels"),
    ("shp", SHP | {"labels": 0}, "score_contradicts_label", "labels"),
    ("shp", {k: v for k, v in SHP.items() if k != "history"}, "missing_column", "history"),
    ("unpaired", {"prompt": "a", "completion": "b", "label": None}, "null", "label"),
    ("unpaired", {"prompt": "a", "completion": "b", "label": "maybe"}, "bad_label", "label"),
    ("unpaired", {"prompt": "a", "completion": "", "label": True}, "empty_response", "completion"),
    ("unpaired", {"prompt": None, "completion": "b", "label": True}, "null", "prompt"),
    ("unpaired", {"messages": [assistant("b")], "label": True}, "no_prompt", "messages"),
    ("unpaired", {"messages": [assistant("b"), user("a")], "label": True}, "no_final_assistant",
     "completion[0]"),
    ("stepwise", {"prompt": "q", "completions": ["a"], "labels": [True, True]}, "bad_steps",
     "labels"),
    ("stepwise", {"prompt": "q", "completions": ["a"], "labels": ["?"]}, "bad_label", "labels[0]"),
    ("stepwise", {"prompt": "q", "completions": [1], "labels": [True]}, "wrong_type",
     "completions[0]"),
    ("stepwise", {"prompt": "q", "completions": [], "labels": []}, "bad_steps", "completions"),
    ("stepwise", {"prompt": "q", "completions": ["a"], "error_steps": [0]}, "step_out_of_range",
     "error_steps[0]"),
    ("stepwise", PROCESSES | {"error_steps": [1, 3]}, "step_out_of_range", "error_steps[1]"),
    ("stepwise", PROCESSES | {"error_steps": [True]}, "wrong_type", "error_steps[0]"),
    ("stepwise", PROCESSES | {"error_steps": []}, "tie", "error_steps"),
    ("stepwise", PROCESSES | {"modified_question": "r"}, "prompts_differ", "modified_question"),
    ("pairwise_label", JUDGED | {"label": 3}, "bad_label", "label"),
    ("pairwise_label", JUDGED | {"label": None}, "null", "label"),
    ("pairwise_label", JUDGED | {"label": True}, "bad_label", "label"),
    ("pairwise_label", JUDGED | {"response_b": True}, "wrong_type", "chosen"),
    ("pairwise_label", JUDGED | {"input": 3}, "wrong_type", "input"),
    ("scored", {"response": "a", "score": 1}, "missing_column", "prompt"),
    ("scored", {"prompt": "p", "response": "a", "score": "N/A"}, "bad_score", "score"),
    ("scored", {"prompt": "p", "response": "a", "score": None}, "unrated", "score"),
    ("scored", {"prompt": "p", "responses": ["a"], "scores": [1, 2]}, "bad_score", "scores"),
    ("scored", {"prompt": "p", "responses": ["a"], "scores": [1]}, "unpaired_alone", "completion"),
    ("scored", {"prompt": "p", "responses": ["a", "b", "c"], "scores": [1, "N/A", 2]}, "bad_score",
     "scores[1]"),
    ("rewardbench", {"prompt": "p", "chosen": "a", "rejected": "b"}, "missing_column", "subset"),
    ("rewardbench2", {"prompt": "p", "chosen": [], "rejected": ["b"]}, "unpaired_alone", "chosen"),
    ("context_ranking", {"context": "Hi", "chosen": [], "rejected": []}, "wrong_type", "context"),
    ("context_ranking", {"context": None, "chosen": [], "rejected": []}, "null", "context"),
    ("sharegpt_ranking", {"conversations": None, "chosen": "a", "rejected": "b"}, "null",
     "conversations"),
    ("openai_dpo", {"input": None, "preferred_output": [], "non_preferred_output": []}, "null",
     "input"),
    ("ms_swift", {"messages": [{"role": "assistant", "content": "a"}], "rejected_response": None},
     "null", "rejected_response"),
    ("stepwise", {"prompt": "q", "completions": [None], "labels": [True]}, "null",
     "completions[0]"),
    ("hh_rlhf", {"chosen": None, "rejected": "b"}, "null", "chosen"),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "row", "reason", "field"), BAD)
def test_rows_that_cannot_be_used_get_their_reason(layout, row, reason, field):
    options = {"first": 1, "second": 2} if layout == "pairwise_label" else {}
    with pytest.raises(Unusable) as caught:
        raise first_problem(items(layout, row, **options))
    assert (caught.value.reason, caught.value.field) == (reason, field)
    assert "found" in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("layout", "options", "message"),
    [
        (
            "scored",
            {"bye": "id"},
            r"options\.bye: unknown key; did you mean by\? \(options of layout 'scored': tool",
        ),
        ("hh_rlhf", {"format": "as_is"}, r"options\.format.*layout 'hh_rlhf': tool_turns"),
        ("unpaired", {"pairs": "adjacent"}, r"options\.pairs: Input should be 'all' or"),
        ("scored", {"max_pairs": 0}, r"options\.max_pairs.*greater than or equal to 1, found 0"),
        ("scored", {"responses": ["a"]}, "one path in options.scores for each"),
        (
            "pairwise_label",
            {"first": 0, "second": 1, "tie": "1.0"},
            r"options\.second is the number 1 and options\.tie the text '1\.0', the same label",
        ),
        ("pairwise_label", {"first": [1, 3], "second": 3}, r"options\.first is the number 3"),
        (None, {"by": "id"}, "options 'by' without a layout"),
    ],
)
def test_wrong_options_are_answered_before_any_work(layout, options, message):
    with pytest.raises(ParamsError, match=message):
        check_declared("votes", layout, {}, options)
