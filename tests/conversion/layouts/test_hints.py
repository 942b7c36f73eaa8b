"""What is said of rows that no layout fits: the lines to write, or why they make no pairs."""

import pytest

from tasks.conversion.layouts import reader, recognise
from tasks.errors import DataError
from tests.conversion.layouts.test_public_layouts import (
    TALK,
    TEXTS,
    assistant,
    pairs_of_rows,
    said,
    user,
)

WRITTEN = {
    # data set: (row, what the error tells to write, layout, columns, options)
    "PKU-SafeRLHF": (
        {"prompt": "Hi", "response_0": "No.", "response_1": "Hello.", "prompt_source": "x",
         "is_response_0_safe": False, "is_response_1_safe": True, "better_response_id": 1,
         "safer_response_id": 1, "sha256": "x"},
        r"cannot be seen; write layout: pairwise_label, columns: \{response_a: response_0.*"
        r"labels: \[better_response_id\], first: 0, second: 1.*safer_response_id",
        "pairwise_label", {"response_a": "response_0", "response_b": "response_1"},
        {"labels": ["better_response_id"], "first": 0, "second": 1, "format": "conversational"}),
    "stack-exchange-paired": (
        {"qid": 1, "question": "Hi", "date": "x", "metadata": ["y"], "response_j": "Hello.",
         "response_k": "No."},
        r"Write columns: \{prompt: question, chosen: response_j, rejected: response_k\}",
        "columns", {"prompt": "question", "chosen": "response_j", "rejected": "response_k"},
        {"format": "conversational"}),
    "Intel orca DPO pairs": (
        TEXTS | {"system": "Be brief.", "question": "Hi"},
        r"Write columns: \{prompt: question, chosen: chosen, rejected: rejected, system: system\}",
        "columns", {"prompt": "question", "chosen": "chosen", "rejected": "rejected",
                    "system": "system"}, {}),
    "texts with an instruction and its input": (
        {"instruction": "Hi", "input": "x", "better": "Hello.", "worse": "No."},
        r"Write columns: \{prompt: instruction, chosen: better, rejected: worse\} if that is what "
        r"they mean\. But what stands in 'input' is no part of the prompt",
        "columns", {"prompt": "instruction", "chosen": "better", "rejected": "worse"},
        {"format": "conversational"}),
    "texts with a system beside the prompt": (
        TEXTS | {"system": "Be brief.", "prompt": "Hi"},
        r"Write columns: \{prompt: prompt, .*system: system\}",
        "columns", {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected",
                    "system": "system"}, {}),
    "a winner without the models": (
        {"id": "x", "prompt": "Hi", "response_a": "No.", "response_b": "Hello.",
         "winner": "model_b", "language": "English"},
        r"layout: pairwise_label, options: \{labels: \[winner\], first: model_a",
        "pairwise_label", {}, {"labels": ["winner"], "first": "model_a", "second": "model_b",
                               "format": "conversational"}),
    "JudgeBench": (
        {"pair_id": "x", "source": "mmlu", "question": "Hi", "response_model": "m",
         "response_A": "No.", "response_B": "Hello.", "label": "B>A"},
        r"layout: pairwise_label, columns: \{prompt: question, response_a: response_A, response_b: "
        r"response_B\}, options: \{first: A>B, second: B>A, format: conversational\}",
        "pairwise_label", {"prompt": "question", "response_a": "response_A",
                           "response_b": "response_B"},
        {"first": "A>B", "second": "B>A", "format": "conversational"}),
    "Prometheus's preferences": (
        {"orig_criteria": "x", "orig_feedback_A": "y", "orig_instruction": "Hi",
         "orig_preference": "B", "orig_response_A": "No.", "orig_response_B": "Hello.",
         "instruction": "###Task", "output": "z [RESULT] B"},
        r"layout: pairwise_label, columns: \{prompt: orig_instruction, response_a: orig_resp",
        "pairwise_label", {"prompt": "orig_instruction", "response_a": "orig_response_A",
                           "response_b": "orig_response_B"},
        {"labels": ["orig_preference"], "first": "A", "second": "B", "format": "conversational"}),
    "preference-dissection": (
        {"query": "Hi", "scenario_group": "x", "response_1": {"content": "No.", "model": "m"},
         "response_2": {"content": "Hello.", "model": "n"},
         "preference_labels": {"human": "response_2", "gpt-4": "response_1"}},
        r"layout: pairwise_label, columns: \{prompt: query, response_a: response_1\.content,",
        "pairwise_label", {"prompt": "query", "response_a": "response_1.content",
                           "response_b": "response_2.content"},
        {"labels": ["preference_labels.human"], "first": "response_1", "second": "response_2",
         "format": "conversational"}),
    "PPE best of k": (
        {"question_id": "x", "prompt": "Hi", "ground_truth": "A", "scores": [False, True],
         "parsed_outputs": ["B", "A"], "response_1": "No.", "response_2": "Hello."},
        r"layout: scored, options: \{responses: \[response_1, response_2\], scores: \[scores\.0",
        "scored", {}, {"responses": ["response_1", "response_2"],
                       "scores": ["scores.0", "scores.1"], "format": "conversational"}),
    "distilabel math preferences": (
        {"metadata": "x", "instruction": "Hi", "chosen_response": "Hello.", "chosen_rating": 9,
         "rejected_response": "No.", "rejected_rating": 5},
        r"Write columns: \{prompt: instruction, chosen: chosen_response, rejected: rejected_resp",
        "columns", {"prompt": "instruction", "chosen": "chosen_response",
                    "rejected": "rejected_response"}, {"format": "conversational"}),
    "HelpSteer3 edit quality": (
        {"domain": "x", "context": [user("Hi")], "original_response": "x",
         "good_edited_response": "Hello.", "bad_edited_response": "No.", "feedback": ["x"]},
        r"Write columns: \{prompt: context, chosen: good_edited_response",
        "columns", {"prompt": "context", "chosen": "good_edited_response",
                    "rejected": "bad_edited_response"}, {}),
    "accepted and rejected": (
        {"prompt": "Hi", "accepted": "Hello.", "rejected": "No."},
        r"Write columns: \{prompt: prompt, chosen: accepted, rejected: rejected\}",
        "columns", {"prompt": "prompt", "chosen": "accepted", "rejected": "rejected"},
        {"format": "conversational"}),
    "UltraInteract pairs": (
        TEXTS | {"task": "Coding", "dataset": "x", "id": "y", "parent_id": "z",
                 "trajectory": [{"from": "user", "value": "Hi"}]},
        r"Write columns: \{prompt: trajectory, chosen: chosen, rejected: rejected\}",
        "columns", {"prompt": "trajectory", "chosen": "chosen", "rejected": "rejected"}, {}),
    "texts beside turns under a name that nobody knows": (
        TEXTS | {"dialogue": [user("Hi")]},
        r"Write columns: \{prompt: dialogue, chosen: chosen, rejected: rejected\}",
        "columns", {"prompt": "dialogue", "chosen": "chosen", "rejected": "rejected"}, {}),
    "texts beside the conversation that they answer": (
        TEXTS | {"messages": [user("Hi")]},
        r"Write columns: \{prompt: messages, chosen: chosen, rejected: rejected\}",
        "columns", {"prompt": "messages", "chosen": "chosen", "rejected": "rejected"}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_flat_columns_are_answered_with_the_lines_to_write_and_these_give_the_pair(name):
    row, says, layout, columns, options = WRITTEN[name]
    with pytest.raises(DataError, match=f"no layout fits the columns .*{says}"):
        recognise("votes", None, {}, [row])
    (pair,), _ = pairs_of_rows(layout, [row], columns, **options)
    assert (said(pair.prompt), said(pair.chosen), said(pair.rejected)) == TALK
    assert pair.format == "conversational"
    assert [turn["role"] for turn in pair.prompt] == (
        ["system", "user"] if "system" in columns else ["user"]
    )


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}],
          "kto_tag": True}, {"messages": "conversations", "label": "kto_tag"}),
        ({"instruction": "Hi", "input": "", "output": "Hello.", "kto_tag": True},
         {"prompt": "instruction", "completion": "output", "label": "kto_tag"}),
        ({"prompt": "Hi", "response": "Hello.", "category": {"x": True}, "is_safe": True},
         {"completion": "response", "label": "is_safe"}),
    ],
    ids=["KTO turns", "KTO texts", "BeaverTails"],
)  # fmt: skip
def test_labels_under_names_in_use_are_answered_with_the_lines_to_write(row, columns):
    written = ", ".join(f"{ours}: {theirs}" for ours, theirs in columns.items())
    with pytest.raises(DataError, match=f"layout: unpaired, columns: {{{written}}}"):
        recognise("votes", None, {}, [row])
    (answer,) = reader("unpaired", columns)(row)
    assert answer.score is True
    assert said(answer.completion) == "Hello."


@pytest.mark.parametrize(
    "row",
    [
        {"text": "Hi", "completion_a": "a", "completion_b": "b", "worker_annotations": []},
    ],
)
def test_rows_of_two_answers_are_not_said_to_hold_one(row):
    with pytest.raises(DataError, match="no layout fits the columns") as caught:
        recognise("votes", None, {}, [row])
    assert "to imitate" not in str(caught.value)


REPLY = {"message_id": "b", "parent_id": "a", "text": "Hello.", "role": "assistant", "rank": 0}


@pytest.mark.parametrize(
    ("row", "says", "rows"),
    [
        (REPLY | {"message_tree_id": "a", "tree_state": "x", "labels": None},
         r"the messages of trees one by one, .* layout: scored, options: \{better: lower",
         {"prompt": [user("Hi")], "responses": ["No.", "Hello."], "scores": [1, 0]}),
        ({"qid": 1, "question": "Hi", "answers": [{"pm_score": 1, "text": "No."}], "date": "x"},
         r"their scores as scores: write these, as layout: scored, options: \{format: conv",
         {"prompt": "Hi", "responses": ["No.", "Hello."], "scores": [1, 4]}),
    ],
    ids=["OpenAssistant's messages", "stack-exchange-preferences"],
)  # fmt: skip
def test_nested_answers_are_answered_with_the_rows_to_write_and_these_give_the_pair(
    row, says, rows
):
    with pytest.raises(DataError, match=f"no layout fits the columns .*{says}"):
        recognise("votes", None, {}, [row])
    options = {"better": "lower"} if "lower" in says else {}
    (pair,), _ = pairs_of_rows("scored", [rows], format="conversational", **options)
    assert (said(pair.prompt), said(pair.chosen), said(pair.rejected)) == TALK


def test_an_input_that_stands_below_the_instruction_is_told_where_it_is_not_read(caplog):
    row = TEXTS | {"instruction": "Translate.", "input": "Hi"}
    mapping = {"prompt": "instruction"}
    assert recognise("votes", None, mapping, [row | {"input": " "}]) == "columns"
    assert caplog.text == ""
    assert recognise("votes", None, mapping, [row]) == "columns"
    assert "'input' is no part of the prompt: write it below 'instruction' first (found 'Hi')" in (
        caplog.text
    )


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"min_harmlessness_score_transcript": 0.5, "num_params": "13B", "model_type": "rlhf",
          "transcript": "\n\nHuman: Hi", "rating": 4.0, "task_description": "x", "tags": None},
         "red-team attempts: there is no second answer to the same prompt"),
        ({"info": {"post": "x"}, "summary": {"text": "y", "axes": {}}, "worker": "w"},
         "along axes: there is no second one"),
        ({"messages": [user("Hi"), assistant("Hello.")], "source": "x"},
         "data to imitate, not to compare"),
        ({"instruction": "Hi", "input": "", "output": "Hello."}, "data to imitate"),
    ],
    ids=["red-team-attempts", "summaries by axes", "chats", "instructions"],
)  # fmt: skip
def test_rows_that_compare_nothing_are_refused_with_the_reason(row, says):
    with pytest.raises(DataError, match=f"no layout fits the columns .*{says}"):
        recognise("votes", None, {}, [row])
