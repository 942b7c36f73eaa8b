"""Rows of one dataset type as rows of another: the nineteen conversions of the field's guide.

    from \\ to             language    prompt-      prompt-   implicit    preference  unpaired
                          modeling    completion   only      preference              preference
    prompt-completion     x                        x
    implicit preference   x           x            x                     x           x
    preference            x           x            x         x                       x
    unpaired preference   x           x            x
    stepwise supervision  x           x            x                                 x

Each is a pure function `<from>_to_<to>(example)` that serves text and messages alike, keeps every
column that is not converted (`tools`, ids ...), and can be given to `datasets.Dataset.map`, which
then also has to be told which columns go (`remove_columns`): `dataset_conversions` does that. Text
ends up in `text`, a conversation in `messages`. Two conversions make two rows of one; where the
guide leaves bad rows out, that is a filter over rows, not part of the function.

Source: https://huggingface.co/docs/trl/dataset_formats
"""

from collections.abc import Mapping
from typing import Any

from tasks.conversion.preference.shapes import extract_prompt
from tasks.errors import DataError, shown

Example = Mapping[str, Any]
Converted = dict[str, Any]


def prompt_completion_to_language_modeling(example: Example) -> Converted:
    """The prompt with its completion, as one.

    >>> prompt_completion_to_language_modeling({"prompt": "The sky is", "completion": " blue."})
    {'text': 'The sky is blue.'}
    """
    whole = _whole(joined_sides(example["prompt"], example["completion"]))
    return _without(example, "prompt", "completion") | whole


def prompt_completion_to_prompt_only(example: Example) -> Converted:
    """The row without its completion."""
    return _without(example, "completion")


def implicit_preference_to_language_modeling(example: Example) -> Converted:
    """The chosen text or conversation, as a whole."""
    return _without(example, "chosen", "rejected") | _whole(example["chosen"])


def implicit_preference_to_prompt_completion(example: Example) -> Converted:
    """The prompt that both answers begin with, and the rest of the chosen one."""
    return preference_to_prompt_completion(extract_prompt(example))


def implicit_preference_to_prompt_only(example: Example) -> Converted:
    """The prompt that both answers begin with."""
    return preference_to_prompt_only(extract_prompt(example))


def implicit_preference_to_preference(example: Example) -> Converted:
    """The row with its prompt as a column of its own: `extract_prompt`."""
    return extract_prompt(example)


def implicit_preference_to_unpaired_preference(example: Example) -> list[Converted]:
    """Two rows: prompt and chosen answer, good; prompt and rejected answer, bad."""
    return preference_to_unpaired_preference(extract_prompt(example))


def preference_to_language_modeling(example: Example) -> Converted:
    """The prompt with the chosen answer, as one."""
    whole = _whole(joined_sides(example["prompt"], example["chosen"]))
    return _without(example, "prompt", "chosen", "rejected") | whole


def preference_to_prompt_completion(example: Example) -> Converted:
    """The row with the chosen answer as its completion."""
    return _without(example, "chosen", "rejected") | {"completion": example["chosen"]}


def preference_to_prompt_only(example: Example) -> Converted:
    """The row without its answers."""
    return _without(example, "chosen", "rejected")


def preference_to_implicit_preference(example: Example) -> Converted:
    """The row with its prompt at the beginning of both answers: the inverse of `extract_prompt`."""
    prompt = example["prompt"]
    sides = {side: joined_sides(prompt, example[side]) for side in ("chosen", "rejected")}
    return _without(example, "prompt") | sides


def preference_to_unpaired_preference(example: Example) -> list[Converted]:
    """Two rows: the chosen answer, labelled true, and the rejected one, labelled false.

    >>> preference_to_unpaired_preference({"prompt": "1+1", "chosen": "2", "rejected": "3"})
    [{'prompt': '1+1', 'completion': '2', 'label': True}, \
{'prompt': '1+1', 'completion': '3', 'label': False}]
    """
    return [chosen_alone(example), rejected_alone(example)]


def chosen_alone(example: Example) -> Converted:
    """The chosen answer as an unpaired row: a good completion."""
    kept = _without(example, "chosen", "rejected", "margin")
    return kept | {"completion": example["chosen"], "label": True}


def rejected_alone(example: Example) -> Converted:
    """The rejected answer as an unpaired row: a bad completion."""
    kept = _without(example, "chosen", "rejected", "margin")
    return kept | {"completion": example["rejected"], "label": False}


def unpaired_preference_to_language_modeling(example: Example) -> Converted:
    """The prompt with its completion, as one; the guide does so with the good ones alone."""
    return prompt_completion_to_language_modeling(_without(example, "label"))


def unpaired_preference_to_prompt_completion(example: Example) -> Converted:
    """The row without its label; the guide does so with the good ones alone."""
    return _without(example, "label")


def unpaired_preference_to_prompt_only(example: Example) -> Converted:
    """The row's prompt."""
    return _without(example, "completion", "label")


def stepwise_supervision_to_language_modeling(
    example: Example, step_separator: str = ""
) -> Converted:
    """The prompt with all steps, as one; the guide does so where all steps are right."""
    return unpaired_preference_to_language_modeling(
        stepwise_supervision_to_unpaired_preference(example, step_separator)
    )


def stepwise_supervision_to_prompt_completion(
    example: Example, step_separator: str = ""
) -> Converted:
    """The prompt and all steps joined; the guide does so where all steps are right."""
    return _without(stepwise_supervision_to_unpaired_preference(example, step_separator), "label")


def stepwise_supervision_to_prompt_only(example: Example) -> Converted:
    """The row's prompt."""
    return _without(example, "completions", "labels")


def stepwise_supervision_to_unpaired_preference(
    example: Example, step_separator: str = ""
) -> Converted:
    """The steps joined to one completion, which is good when all of them are (logical and).

    >>> row = {"prompt": "Water", "completions": [" is", " dry."], "labels": [True, False]}
    >>> stepwise_supervision_to_unpaired_preference(row)
    {'prompt': 'Water', 'completion': ' is dry.', 'label': False}

    Raises:
        DataError: there are not as many labels as completions.
    """
    steps, labels = example["completions"], example["labels"]
    if len(steps) != len(labels):
        raise DataError(
            f"labels: found {len(labels)} for {len(steps)} completions {shown(steps)}, expected "
            "one for each step"
        )
    merged = {"completion": step_separator.join(steps), "label": all(labels)}
    return _without(example, "completions", "labels") | merged


def joined_sides(prompt: Any, completion: Any) -> Any:
    """Prompt and completion as one text or one conversation.

    Raises:
        DataError: one is text and the other is messages.
    """
    if isinstance(prompt, str) != isinstance(completion, str):
        raise DataError(
            f"prompt is {shown(prompt)} but the completion is {shown(completion)}; both must share "
            "one format: text, or a list of messages"
        )
    return prompt + completion


def _whole(value: Any) -> Converted:
    return {"text" if isinstance(value, str) else "messages": value}


def _without(example: Example, *columns: str) -> Converted:
    return {name: value for name, value in example.items() if name not in columns}
