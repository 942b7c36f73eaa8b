"""Layout `prm800k`: solutions whose steps people judged one by one, as they were labelled.

    {"question": {"problem": "1+1+1?", "pre_generated_steps": ["1+1=2.", "2+1=4.", "So 4."]},
     "label": {"finish_reason": "found_error", "steps": [
        {"completions": [{"text": "1+1=2.", "rating": 1}], "chosen_completion": 0},
        {"completions": [{"text": "2+1=4.", "rating": -1}], "chosen_completion": null}]}}

is a bad answer to "1+1+1?". With a good one from another row, `finish_reason` "solution" and no
step rated -1, it makes a pair: rows are joined by their problem, as in `stepwise`. An answer is the
steps that the labeler went along, joined by `step_separator`; where it was broken off at an error,
the rest of what the model had generated stands behind it, so that it is no shorter for being wrong.
Phase 1 gives several completions of a step: the chosen one is taken, or the labeler's own where
none was, or the first that is rated -1. Problems that were given up are counted as `unrated`.
"""

from typing import Any, cast

from tasks.conversion.conversation.turns import listed
from tasks.conversion.layouts.columns import Row, is_object, required
from tasks.conversion.layouts.stepwise import StepwiseOptions
from tasks.conversion.preference.answers import Answer, Item, check_completion
from tasks.conversion.unusable import Unusable, found, not_as_expected

READ = ("question", "label")
WRONG = -1
"""The rating of a step that is an error; 0 is neutral and 1 good."""


def fits(columns: set[str], row: Row) -> bool:  # noqa: ARG001
    """A question with its problem, and a label with steps."""
    question, label = row.get("question"), row.get("label")
    return is_object(question, "problem") and is_object(label, "steps")


def read(row: Row, options: StepwiseOptions) -> list[Item]:
    """The row's answer with its label.

    Raises:
        Unusable: missing_column, null, wrong_type, bad_steps, unrated, empty_response.
    """
    question = _object(required(row, "question"), "question", "problem")
    label = _object(required(row, "label"), "label", "steps")
    problem, finish = question["problem"], label.get("finish_reason")
    if not isinstance(problem, str):
        raise not_as_expected(problem, "question.problem", "text")
    if finish not in ("solution", "found_error"):
        raise Unusable(
            "unrated", "label.finish_reason", f"found {found(finish)}: neither right nor wrong"
        )
    steps, is_good = _until_error(listed(label["steps"], "label.steps", "a list of steps"))
    if is_good != (finish == "solution"):
        raise Unusable(
            "bad_steps",
            "label.steps",
            f"found {'no step' if is_good else 'a step'} rated -1 and finish_reason {finish!r}, "
            "expected them to agree",
        )
    if not is_good:
        steps = _continued(steps, question.get("pre_generated_steps"))
    completion = options.step_separator.join(steps)
    check_completion(completion, "label.steps")
    return [Answer(problem, completion, is_good)]


def _until_error(steps: list[Any]) -> tuple[list[str], bool]:
    """The texts of the steps up to the first error, and whether there was none."""
    if not steps:
        raise Unusable("bad_steps", "label.steps", "found no step, expected at least one")
    texts: list[str] = []
    for i, step in enumerate(steps):
        completion = _completion(step, f"label.steps[{i}]")
        texts.append(completion["text"])
        if completion.get("rating") == WRONG:
            return texts, False
    return texts, True


def _completion(step: Any, field: str) -> Row:
    """The completion of a step that the labeler went on with."""
    fields = step if is_object(step) else {}
    completions = listed(fields.get("completions") or [], f"{field}.completions")
    number = fields.get("chosen_completion")
    if isinstance(number, int) and 0 <= number < len(completions):
        completion = completions[number]
    elif fields.get("human_completion") is not None:
        completion = fields["human_completion"]
    else:
        wrong = [c for c in completions if is_object(c) and c.get("rating") == WRONG]
        completion = next(iter(wrong or completions), None)
    if not is_object(completion) or not isinstance(completion.get("text"), str):
        raise Unusable(
            "bad_steps", field, f"found {found(completion)}, expected a completion with its text"
        )
    return completion


def _continued(steps: list[str], generated: Any) -> list[str]:
    """All generated steps where these are the first of them, else these alone."""
    whole = cast(list[Any], generated) if isinstance(generated, list) else []
    begins = whole[: len(steps)] == steps and all(isinstance(step, str) for step in whole)
    return whole if begins else steps


def _object(value: Any, field: str, key: str) -> Row:
    if is_object(value, key):
        return value
    raise not_as_expected(value, field, f"an object with {key!r}")
