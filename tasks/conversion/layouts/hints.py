"""Advice for columns that no layout is recognised by; it goes into the error message.

Data sets in wide use that are flat, or that leave a choice to a person, get the lines to write.
Those that compare nothing get a sentence that says so.
"""

from collections.abc import Collection, Sequence

from tasks.conversion.layouts.trl import ASKED, SYSTEMS

NO_PAIRS = (
    (
        {"transcript", "rating"},
        "These rows rate one transcript each, such as red-team attempts: there is no second answer "
        "to the same prompt, so they make no pairs; leave these files out.",
    ),
    (
        {"info", "summary"},
        "These rows grade one summary each along axes: there is no second one to compare it with; "
        "use the release's comparisons instead.",
    ),
)
TREES = (
    "These are the messages of trees one by one, in which replies to the same message have ranks: "
    "take the release's trees in their place (files that end in .trees.jsonl.gz), which layout "
    "message_trees reads. Or write a row for each message with several ranked replies, its prompt "
    "the messages down to it, its responses these replies' texts and its scores their ranks, and "
    "layout: scored, options: {better: lower, format: conversational}."
)
INPUT = "what stands in 'input' is no part of the prompt: write it below 'instruction' first"
CHOICES = (
    (
        {"conversations", "kto_tag"},
        "Write layout: unpaired, columns: {messages: conversations, label: kto_tag}.",
    ),
    (
        {"instruction", "output", "kto_tag"},
        "Write layout: unpaired, columns: {prompt: instruction, completion: output, label: "
        "kto_tag}.",
    ),
    (
        {"prompt", "response", "is_safe"},
        "Write layout: unpaired, columns: {completion: response, label: is_safe}, if a safe answer "
        "is the better one.",
    ),
    (
        {"response_0", "response_1", "better_response_id", "safer_response_id"},
        "Two labels stand beside the two answers, and which is meant cannot be seen; write "
        "layout: pairwise_label, columns: {response_a: response_0, response_b: response_1}, "
        "options: {labels: [better_response_id], first: 0, second: 1, format: conversational}; or "
        "safer_response_id.",
    ),
    (
        {"response_0", "response_1", "better_response_id"},
        "Write layout: pairwise_label, columns: {response_a: response_0, response_b: response_1}, "
        "options: {labels: [better_response_id], first: 0, second: 1, format: conversational}.",
    ),
    (
        {"question", "response_A", "response_B", "label"},
        "Write layout: pairwise_label, columns: {prompt: question, response_a: response_A, "
        "response_b: response_B}, options: {first: A>B, second: B>A, format: conversational}, with "
        "the values that the column holds.",
    ),
    (
        {"orig_instruction", "orig_response_A", "orig_response_B", "orig_preference"},
        "Write layout: pairwise_label, columns: {prompt: orig_instruction, response_a: "
        "orig_response_A, response_b: orig_response_B}, options: {labels: [orig_preference], "
        "first: A, second: B, format: conversational}.",
    ),
    (
        {"query", "response_1", "response_2", "preference_labels"},
        "Write layout: pairwise_label, columns: {prompt: query, response_a: response_1.content, "
        "response_b: response_2.content}, options: {labels: [preference_labels.human], first: "
        "response_1, second: response_2, format: conversational}, with the values that the column "
        "holds.",
    ),
    (
        {"prompt", "response_1", "response_2", "scores"},
        "Write layout: scored, options: {responses: [response_1, response_2], scores: [scores.0, "
        "scores.1], format: conversational}, with all of the answers and as many scores.",
    ),
    ({"message_tree_id", "parent_id", "text", "rank"}, TREES),
    (
        {"qid", "question", "answers"},
        "Answers that are objects with a score each are read from rows with a prompt, their texts "
        "as responses and their scores as scores: write these, as layout: scored, options: "
        "{format: conversational}.",
    ),
    (
        {"response_a", "response_b", "winner"},
        "Write layout: pairwise_label, options: {labels: [winner], first: model_a, second: "
        "model_b, tie: tie, format: conversational}, with the values that the column holds.",
    ),
)
WHOLE_TABLE = (
    "There is one row, with lists or objects in it: if it is a whole table, write its rows as an "
    "array of objects, or as one object per line (pandas: to_json(orient='records', lines=True)). "
)
ANSWERS = (
    ("chosen", "rejected"),
    ("response_j", "response_k"),
    ("chosen_response", "rejected_response"),
    ("chosen_answer", "rejected_answer"),
    ("better", "worse"),
    ("good_edited_response", "bad_edited_response"),
    ("accepted", "rejected"),
    ("preferred", "rejected"),
    ("chosen", "reject"),
    ("winner", "loser"),
    ("positive", "negative"),
)
"""The better answer's name and the worse one's, as they are in use."""
ALONE = {"messages", "conversations", "output", "response", "completion", "text"}
JUDGED = (
    *("label", "score", "rating", "rank", "reward", "prefer", "winner", "kto_tag", "is_safe"),
    *("reject", "accepted", "annotation", "completion_", "response_", "output_", "answer_"),
)
"""Parts of the names that columns of a second answer, or of a judgement, have."""


def hint(columns: Collection[str], asked: Sequence[str] = ()) -> str:
    """What to write for these columns, or why they make no pairs; "" where nothing is known.

    `asked`: the columns among them that hold prompts.
    """
    further = f"But {INPUT}. " if {"instruction", "input"} <= set(columns) else ""
    for needed, sentence in (*NO_PAIRS, *CHOICES):
        if needed <= set(columns):
            return f"{sentence} {further}"
    answers = next(((a, b) for a, b in ANSWERS if a in columns and b in columns), None)
    prompt = next((name for name in ("prompt", *ASKED, *asked) if name in columns), None)
    if answers is None:
        return _no_answers(columns)
    mapping = {"prompt": prompt, "chosen": answers[0], "rejected": answers[1]}
    mapping["system"] = next((name for name in SYSTEMS if name in columns), None)
    written = ", ".join(f"{name}: {column}" for name, column in mapping.items() if column)
    further = further if prompt == "instruction" else ""
    return f"Write columns: {{{written}}} if that is what they mean. {further}"


def _no_answers(columns: Collection[str]) -> str:
    judged = any(word in name for name in columns for word in JUDGED)
    if not judged and set(columns) & ALONE:
        return (
            "One answer without a second one, a label or a score: that is data to imitate, not to "
            "compare. "
        )
    return ""
