"""JudgeBench (Tan et al. 2024, arXiv 2410.12784): pairs of answers one of which is correct.

A row {pair_id, source, question, response_A, response_B, label "A>B" or "B>A"} is right when the
named answer earns strictly more; equal rewards count for neither. A reward model is asked in one
order, as it knows no other. Overall counts every pair alike; so do the four categories.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.evaluation.benchmarks.combining import absent, by_subset, mean, means
from tasks.evaluation.benchmarks.items import Item, Place, Scored, label, text
from tasks.evaluation.benchmarks.results import Result
from tasks.evaluation.measures.intervals import Resampling

CATEGORIES = {
    "mmlu-pro": "knowledge",
    "livebench-reasoning": "reasoning",
    "livebench-math": "math",
    "livecodebench": "coding",
}
"""What a row's source begins with, and its category."""

ORDERS = {"A>B": ("response_A", "response_B"), "B>A": ("response_B", "response_A")}


def item(row: Mapping[str, Any], place: Place) -> Item:
    """The row's item; raises DataError where it is not of the schema."""
    better = label(row, "label", place)
    if better not in ORDERS:
        raise place.wrong("label", better, f"one of {', '.join(ORDERS)}")
    first, second = ORDERS[better]
    return Item(
        place=place,
        id=label(row, "pair_id", place),
        subset=label(row, "source", place),
        prompt=text(row, "question", place),
        answers=(text(row, first, place), text(row, second, place)),
        correct=1,
    )


def category(source: str) -> str | None:
    """The category of a source; None of one that JudgeBench does not have."""
    return next((name for start, name in CATEGORIES.items() if source.startswith(start)), None)


def judge(scored: Sequence[Scored], how: Resampling) -> Result:
    """Accuracy over all pairs of its categories, per category, and per source."""
    values = [float(s.rewards[0] > s.rewards[1]) for s in scored]
    ties = [s.rewards[0] == s.rewards[1] for s in scored]
    groups = [s.item.group for s in scored]

    def figures(names: Sequence[str]) -> dict[str, dict[str, Any]]:
        places = by_subset(names)
        return {
            name: figure.to_json() | {"ties": sum(ties[i] for i in places[name])}
            for name, figure in means(values, groups, places, how).items()
        }

    sources = [s.item.subset for s in scored]
    known = [i for i, source in enumerate(sources) if category(source)]
    categories = figures([category(source) or "" for source in sources])
    categories.pop("", None)
    whole = mean([values[i] for i in known], [groups[i] for i in known], how) if known else None
    return Result(
        values=values,
        overall=whole,
        subsets=figures(sources),
        missing=absent(list(CATEGORIES.values()), categories),
        unknown=sorted({source for source in sources if not category(source)}),
        sections={name: figure | {"missing": []} for name, figure in categories.items()},
    )
