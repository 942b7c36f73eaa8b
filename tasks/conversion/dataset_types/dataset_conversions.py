"""The conversions between dataset types, on whole data sets.

In:  a `datasets.Dataset`, `IterableDataset` or `DatasetDict`, or a list of rows.
Out: the same kind of thing, of another type; rows that the target type has no place for are out
     (bad completions, where the guide leaves them out).

    convert_type(dataset, "stepwise_supervision", "unpaired_preference")
    unpair_preference_dataset(dataset)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from tasks.conversion.dataset_types import type_conversions as rows
from tasks.errors import ParamsError, shown

DatasetT = TypeVar("DatasetT")

DatasetType = Literal[
    "language_modeling",
    "prompt_only",
    "prompt_completion",
    "implicit_preference",
    "preference",
    "unpaired_preference",
    "stepwise_supervision",
]


@dataclass(frozen=True)
class Conversion:
    """One cell of the guide's table."""

    row: Callable[..., Any]
    removed: tuple[str, ...]
    """The columns that go."""
    only_if: Callable[[Mapping[str, Any]], bool] | None = None
    """The rows that stay; None: all."""


def _is_good(example: Mapping[str, Any]) -> bool:
    return bool(example["label"])


def _all_steps_are_good(example: Mapping[str, Any]) -> bool:
    return all(example["labels"])


_ANSWERS = ("chosen", "rejected")
_UNPAIRED = ("prompt", "completion", "label")
_STEPS = ("completions", "labels")

CONVERSIONS: Mapping[tuple[DatasetType, DatasetType], Conversion] = {
    ("prompt_completion", "language_modeling"): Conversion(
        rows.prompt_completion_to_language_modeling, ("prompt", "completion")
    ),
    ("prompt_completion", "prompt_only"): Conversion(
        rows.prompt_completion_to_prompt_only, ("completion",)
    ),
    ("implicit_preference", "language_modeling"): Conversion(
        rows.implicit_preference_to_language_modeling, _ANSWERS
    ),
    ("implicit_preference", "prompt_completion"): Conversion(
        rows.implicit_preference_to_prompt_completion, _ANSWERS
    ),
    ("implicit_preference", "prompt_only"): Conversion(
        rows.implicit_preference_to_prompt_only, _ANSWERS
    ),
    ("implicit_preference", "preference"): Conversion(rows.implicit_preference_to_preference, ()),
    ("implicit_preference", "unpaired_preference"): Conversion(
        rows.implicit_preference_to_unpaired_preference, _ANSWERS
    ),
    ("preference", "language_modeling"): Conversion(
        rows.preference_to_language_modeling, ("prompt", *_ANSWERS)
    ),
    ("preference", "prompt_completion"): Conversion(rows.preference_to_prompt_completion, _ANSWERS),
    ("preference", "prompt_only"): Conversion(rows.preference_to_prompt_only, _ANSWERS),
    ("preference", "implicit_preference"): Conversion(
        rows.preference_to_implicit_preference, ("prompt",)
    ),
    ("preference", "unpaired_preference"): Conversion(
        rows.preference_to_unpaired_preference, _ANSWERS
    ),
    ("unpaired_preference", "language_modeling"): Conversion(
        rows.unpaired_preference_to_language_modeling, _UNPAIRED, _is_good
    ),
    ("unpaired_preference", "prompt_completion"): Conversion(
        rows.unpaired_preference_to_prompt_completion, ("label",), _is_good
    ),
    ("unpaired_preference", "prompt_only"): Conversion(
        rows.unpaired_preference_to_prompt_only, ("completion", "label")
    ),
    ("stepwise_supervision", "language_modeling"): Conversion(
        rows.stepwise_supervision_to_language_modeling, ("prompt", *_STEPS), _all_steps_are_good
    ),
    ("stepwise_supervision", "prompt_completion"): Conversion(
        rows.stepwise_supervision_to_prompt_completion, _STEPS, _all_steps_are_good
    ),
    ("stepwise_supervision", "prompt_only"): Conversion(
        rows.stepwise_supervision_to_prompt_only, _STEPS
    ),
    ("stepwise_supervision", "unpaired_preference"): Conversion(
        rows.stepwise_supervision_to_unpaired_preference, _STEPS
    ),
}
"""(from, to) -> how; what is not in it cannot be converted."""


def convert_type(
    dataset: DatasetT, source: DatasetType, target: DatasetType, **arguments: Any
) -> DatasetT:
    """The data set as another type; `arguments` go to the row function (`step_separator`).

    Raises:
        ParamsError: the guide has no such conversion.
    """
    conversion = CONVERSIONS.get((source, target))
    if conversion is None:
        known = ", ".join(f"{a} -> {b}" for a, b in CONVERSIONS)
        raise ParamsError(f"no conversion from {shown(source)} to {shown(target)}; known: {known}")
    if target == "unpaired_preference" and source != "stepwise_supervision":
        explicit = source == "preference"
        whole = dataset if explicit else convert_type(dataset, source, "preference")
        return unpair_preference_dataset(whole)
    return _each_split(dataset, lambda split: _converted(split, conversion, arguments))


def unpair_preference_dataset(
    dataset: DatasetT, num_proc: int | None = None, desc: str | None = None
) -> DatasetT:
    """All chosen answers as good completions, then all rejected ones as bad, in their order.

    With an implicit prompt the completion is the whole answer: extract the prompt before.
    """
    options = {"num_proc": num_proc, "desc": desc}
    return _each_split(dataset, lambda split: _unpaired(split, options))


def maybe_unpair_preference_dataset(
    dataset: DatasetT, num_proc: int | None = None, desc: str | None = None
) -> DatasetT:
    """`unpair_preference_dataset` for a data set of preferences; others come back as they are."""
    options = {"num_proc": num_proc, "desc": desc}

    def unpaired(split: Any) -> Any:
        return _unpaired(split, options) if set(_ANSWERS) <= _columns(split) else split

    return _each_split(dataset, unpaired)


def _each_split(dataset: DatasetT, work: Callable[[Any], Any]) -> DatasetT:
    if isinstance(dataset, dict):
        splits = cast(dict[str, Any], dataset)
        kind: Any = type(splits)
        return kind({name: work(split) for name, split in splits.items()})
    return work(dataset)


def _converted(dataset: Any, conversion: Conversion, arguments: Mapping[str, Any]) -> Any:
    if isinstance(dataset, list):
        examples = cast(list[dict[str, Any]], dataset)
        kept = (e for e in examples if conversion.only_if is None or conversion.only_if(e))
        return [conversion.row(example, **arguments) for example in kept]
    if conversion.only_if is not None:
        dataset = dataset.filter(conversion.only_if)
    return dataset.map(
        conversion.row, remove_columns=list(conversion.removed), fn_kwargs=dict(arguments)
    )


def _unpaired(dataset: Any, options: Mapping[str, Any]) -> Any:
    if isinstance(dataset, list):
        examples = cast(list[dict[str, Any]], dataset)
        good = [rows.chosen_alone(example) for example in examples]
        return good + [rows.rejected_alone(example) for example in examples]
    import datasets

    removed = [name for name in (*_ANSWERS, "margin") if name in _columns(dataset)]
    given = options if isinstance(dataset, datasets.Dataset) else {}
    sides = [
        dataset.map(side, remove_columns=removed, **given)
        for side in (rows.chosen_alone, rows.rejected_alone)
    ]
    return datasets.concatenate_datasets(sides)


def _columns(dataset: Any) -> set[str]:
    names = None if isinstance(dataset, list) else dataset.column_names
    return set(names if names is not None else next(iter(dataset), {}))
