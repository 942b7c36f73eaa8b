"""Layout `stepwise`: answers in steps, each step right or wrong.

    {"prompt": "1+1+1?", "completions": ["1+1=2.", "2+1=3."], "labels": [true, true]}
    {"prompt": "1+1+1?", "completions": ["1+1=2.", "2+1=4."], "error_steps": [2]}

are one pair, joined by their prompt: an answer is good when all its steps are. Its text is the
steps joined by `step_separator`, a line break: chosen "1+1=2.\n2+1=3.", rejected "1+1=2.\n2+1=4.".
`error_steps` counts from 1. The other form is a pair in one row, a right process and what was made
of it:

    {"original_question": "1+1+1?", "original_process": ["1+1=2.", "2+1=3."],
     "modified_question": "1+1+1?", "modified_process": ["1+1=2.", "2+1=4."], "error_steps": [2]}

is the same pair. Without an error step neither process is better: a tie.
"""

from typing import Any

from tasks.conversion.conversation.turns import listed
from tasks.conversion.layouts.columns import Row, required
from tasks.conversion.options import LabelOptions
from tasks.conversion.preference.answers import Answer, Item, check_completion
from tasks.conversion.preference.labels import good
from tasks.conversion.preference.pair import Pair
from tasks.conversion.preference.ties import Tie
from tasks.conversion.unusable import Unusable, found, not_as_expected

READ = (
    *("prompt", "completions", "labels", "error_steps", "original_question"),
    *("original_process", "modified_question", "modified_process"),
)
_NO_ERROR = "found no error step: neither process is better by its steps"


class StepwiseOptions(LabelOptions):
    """How steps become one text."""

    step_separator: str = "\n"
    """Stands between two steps; "" where the steps bring their own spaces."""


def fits(columns: set[str], row: Row) -> bool:
    """Steps in a list, beside labels or error steps."""
    if {"original_process", "modified_process", "error_steps"} <= columns:
        return True
    if not {"prompt", "completions"} <= columns or not isinstance(row.get("completions"), list):
        return False
    return isinstance(row.get("labels"), list) or isinstance(row.get("error_steps"), list)


def read(row: Row, options: StepwiseOptions) -> list[Item]:
    """The row's answer with its label, or its pair of processes.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_label, bad_steps, tie, step_out_of_range,
            prompts_differ, empty_response.
    """
    if "modified_process" in row:
        return [_processes(row, options)]
    steps = _steps(row, "completions")
    if "labels" in row:
        flags = listed(row["labels"], "labels", "a list of labels")
        if len(flags) != len(steps):
            raise Unusable(
                "bad_steps",
                "labels",
                f"found {len(flags)} labels for {len(steps)} steps, expected one for each",
            )
        labels = [good(flag, f"labels[{i}]") for i, flag in enumerate(flags)]
        is_good = all(labels)
    else:
        is_good = not _error_steps(row, len(steps))
    completion = options.step_separator.join(steps)
    check_completion(completion, "completions")
    return [Answer(required(row, "prompt"), completion, is_good)]


def _processes(row: Row, options: StepwiseOptions) -> Pair | Tie:
    original, modified = _steps(row, "original_process"), _steps(row, "modified_process")
    errors = _error_steps(row, len(modified))
    question = required(row, "original_question")
    other = row.get("modified_question", question)
    if other != question and not errors:
        raise Unusable("tie", "error_steps", f"{_NO_ERROR}, and their questions differ")
    if other != question:
        raise Unusable(
            "prompts_differ",
            "modified_question",
            f"found {found(other)}, expected the original question {found(question)}: the two "
            "processes answer different prompts",
        )
    separator = options.step_separator
    pair = Pair(question, separator.join(original), separator.join(modified))
    if not errors:
        return Tie("error_steps", _NO_ERROR, [pair])
    return pair


def _steps(row: Row, field: str) -> list[str]:
    steps = listed(required(row, field), field, "a list of steps")
    if not steps:
        raise Unusable("bad_steps", field, "found an empty list, expected at least one step")
    for i, step in enumerate(steps):
        if not isinstance(step, str):
            raise not_as_expected(step, f"{field}[{i}]", "text")
    return steps


def _error_steps(row: Row, count: int) -> list[Any]:
    """The numbers of the wrong steps, all of them in 1..count."""
    numbers = listed(required(row, "error_steps"), "error_steps", "a list of step numbers")
    for i, number in enumerate(numbers):
        field = f"error_steps[{i}]"
        if not isinstance(number, int) or isinstance(number, bool):
            raise not_as_expected(number, field, "a step's number")
        if not 1 <= number <= count:
            raise Unusable(
                "step_out_of_range",
                field,
                f"found step {number}, expected 1 to {count}, as many as the process has",
            )
    return numbers
