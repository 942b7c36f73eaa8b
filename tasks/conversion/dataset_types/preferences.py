"""The way back that the field's guide lacks: judged completions become preferences.

In:  rows with a prompt, one completion and a label or a score each; or rows with several.
Out: rows with prompt, chosen, rejected, and the difference of the scores as margin.

    preferences_of([{"prompt": "1+1", "completion": "2", "label": True},
                    {"prompt": "1+1", "completion": "3", "label": False}]).rows
    ->             [{"prompt": "1+1", "chosen": "2", "rejected": "3"}]

Whole data sets are held in memory here; the pipeline's own layouts are not so bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeVar

import orjson

from tasks.conversion.options import MAX_PAIRS, RankingOptions, Rule
from tasks.conversion.preference.answers import Answer, joined
from tasks.conversion.preference.fields import exact_number
from tasks.conversion.preference.labels import good
from tasks.conversion.preference.pair import Pair
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, shown
from tasks.ingestion.formats.json_bytes import dumped

DatasetT = TypeVar("DatasetT")
Judged = Literal["label", "score"]


@dataclass
class Preferences:
    """Pairs, and what became no pair."""

    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """prompt, chosen, rejected; margin where scores were given."""
    ties: int = 0
    """Pairs of equal score."""
    capped: int = 0
    """Pairs over `max_pairs` of their prompt."""
    identical: int = 0
    """Pairs of the same completion twice."""
    alone: int = 0
    """Completions of prompts that have no pair at all."""

    def add(self, answers: Sequence[Answer], rules: RankingOptions) -> None:
        """Takes in the answers to one prompt."""
        items = [item for item, _ in joined(answers, rules)]
        if not items:
            self.alone += len(answers)
        for item in items:
            if isinstance(item, Unusable):
                self.ties += item.pairs if item.reason == "tie" else 0
                self.capped += item.pairs if item.reason == "capped" else 0
            elif item.chosen == item.rejected:
                self.identical += 1
            else:
                self.rows.append(_row(item))


def preferences_of(
    rows: Iterable[Mapping[str, Any]],
    judged: Judged = "label",
    pairs: Rule = "all",
    max_pairs: int = MAX_PAIRS,
) -> Preferences:
    """The preferences among all completions of a prompt, prompts in the order of their first row.

    Raises:
        DataError: a label or score is missing or none; names the row, counted from 1.
    """
    groups: dict[bytes, list[Answer]] = {}
    for number, row in enumerate(rows, 1):
        try:
            value = row[judged]
            score = good(value) if judged == "label" else _number(value)
        except (Unusable, KeyError) as problem:
            raise DataError(
                f"row {number}: {problem}; expected prompt, completion and {judged}"
            ) from None
        key = dumped(row["prompt"], option=orjson.OPT_SORT_KEYS)
        groups.setdefault(key, []).append(Answer(row["prompt"], row["completion"], score))
    made, rules = Preferences(), RankingOptions(pairs=pairs, max_pairs=max_pairs)
    for answers in groups.values():
        made.add(answers, rules)
    return made


def unpaired_to_preference(
    dataset: DatasetT, pairs: Literal["all", "best_worst"] = "all", max_pairs: int = MAX_PAIRS
) -> DatasetT:
    """Every good completion of a prompt with every bad one, or one pair per prompt.

    Takes a `datasets.Dataset` or a list of rows, and returns the same.
    """
    return _like(dataset, preferences_of(_rows(dataset), "label", pairs, max_pairs).rows)


def scored_to_preference(
    dataset: DatasetT, pairs: Rule = "all", max_pairs: int = MAX_PAIRS
) -> DatasetT:
    """Every two completions of a prompt that differ in `score`, with the difference as margin.

    Takes a `datasets.Dataset` or a list of rows, and returns the same.
    """
    return _like(dataset, preferences_of(_rows(dataset), "score", pairs, max_pairs).rows)


def ranked_to_preference(
    example: Mapping[str, Any],
    pairs: Rule = "all",
    max_pairs: int = MAX_PAIRS,
    lower_is_better: bool = False,
) -> Preferences:
    """The preferences of a row with `prompt`, `completions` and as many `scores`.

    With ranks for scores, where 1 is the best, say `lower_is_better`.

    Raises:
        DataError: not one score for each completion.
    """
    completions, scores = example["completions"], example["scores"]
    if len(completions) != len(scores):
        raise DataError(
            f"scores: found {len(scores)} for {len(completions)} completions, expected one for each"
        )
    answers: list[Answer] = []
    for i, (completion, value) in enumerate(zip(completions, scores, strict=True)):
        try:
            score = _number(value)
        except Unusable as problem:
            raise DataError(f"scores[{i}]: {problem}") from None
        answers.append(Answer(example["prompt"], completion, -score if lower_is_better else score))
    made = Preferences()
    made.add(answers, RankingOptions(pairs=pairs, max_pairs=max_pairs))
    return made


def best_of_n_to_preference(example: Mapping[str, Any], max_pairs: int = MAX_PAIRS) -> Preferences:
    """The best completion over each other one, of a row with `prompt`, `completions`, `best`.

    `best` is the position of the best one, from 0. Nothing is known of the others' order, so there
    is no margin.

    Raises:
        DataError: `best` is no such position.
    """
    completions, best = example["completions"], example["best"]
    if isinstance(best, bool) or not isinstance(best, int) or not 0 <= best < len(completions):
        raise DataError(
            f"best: found {shown(best)}, expected a position from 0 to {len(completions) - 1}"
        )
    answers = [Answer(example["prompt"], c, i == best) for i, c in enumerate(completions)]
    made = Preferences()
    made.add(answers, RankingOptions(max_pairs=max_pairs))
    return made


def _number(value: Any) -> Decimal:
    score = exact_number(value, "bad_score", "score")
    if score is None:
        raise Unusable("bad_score", "score", "found no score, expected a number")
    return score


def _row(pair: Pair) -> dict[str, Any]:
    row = {"prompt": pair.prompt, "chosen": pair.chosen, "rejected": pair.rejected}
    return row if pair.margin is None else row | {"margin": pair.margin}


def _rows(dataset: Any) -> Iterable[Mapping[str, Any]]:
    return dataset


def _like(dataset: Any, rows: list[dict[str, Any]]) -> Any:
    if isinstance(dataset, list):
        return rows
    kind: Any = type(dataset)
    return kind.from_list(rows)
