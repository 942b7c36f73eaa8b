"""What one benchmark's figures look like, in `benchmarks.json` and in `metrics.json`.

    overall     {score, score_interval, n}: over what is there; null where nothing is
    item_mean   the same over items, which are all of subsets of their own: only beside a null
    complete    whether every subset of the benchmark is there; else `overall` is not comparable
    missing, unknown        subsets that are not there; subsets that are no part of it
    sections    {section: {score, score_interval, n, missing}}, where the benchmark has sections
    subsets     {subset: {score, score_interval, n, ties}}
    details     what only this benchmark has

`ties` counts items whose verdict hangs on equal rewards.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.evaluation.benchmarks.combining import Figure
from tasks.evaluation.benchmarks.items import Item, Place, Scored
from tasks.evaluation.measures.intervals import Resampling


@dataclass(frozen=True)
class Result:
    """The figures of one benchmark, and the score of each of its items."""

    values: Sequence[float]
    """Aligned with the scored items."""
    overall: Figure | None
    subsets: Mapping[str, dict[str, Any]]
    missing: Sequence[str]
    unknown: Sequence[str] = ()
    sections: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """As it stands in the file, without what is known of the pass."""
        return {
            "overall": self.overall.to_json() if self.overall else None,
            "complete": not self.missing,
            "missing": list(self.missing),
            "unknown": list(self.unknown),
            "sections": dict(self.sections),
            "subsets": dict(self.subsets),
            "details": dict(self.details),
        }


@dataclass(frozen=True)
class Benchmark:
    """How one benchmark is read and judged."""

    title: str
    item: Callable[[Mapping[str, Any], Place], Item]
    judge: Callable[[Sequence[Scored], Resampling], Result]
    known: Collection[str]
    """The subsets that it has; of JudgeBench, what their names begin with."""
    official: bool
    """Whether its own tools write `{model, model_type, chat_template, <subset>: score}`."""
    check: Callable[[Sequence[Item]], None] = lambda _: None
    """Raises DataError where rows that are right each do not belong together."""


READ_FIRST = ("title", "overall", "item_mean", "complete", "items")


def headline_of(benchmark: Mapping[str, Any]) -> dict[str, Any]:
    """Of a benchmark's figures what is read first: overall (where there is none, the mean over its
    items) and sections, each with its interval."""
    sections = {
        name: {figure: found[figure] for figure in ("score", "score_interval", "n")}
        for name, found in benchmark["sections"].items()
    }
    first = {name: benchmark[name] for name in READ_FIRST if name in benchmark}
    return first | {"sections": sections}
