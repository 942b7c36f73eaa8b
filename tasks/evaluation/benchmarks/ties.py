"""The subset Ties of RewardBench 2: a model should tell right from wrong by more than it tells
right answers apart.

Of the prompts `ref:k` (one right answer) and `tied:k` (several):

    gap       lowest right reward - highest wrong one; the prompt is accurate where it is above 0
    spread    highest right reward - lowest right one, of the tied prompt
    score     .30 tied accuracy + .30 ref accuracy + .20 mean(gap_tied > spread)
              + .20 mean(min(gap_ref, gap_tied) > spread)
              + .01 mean(tanh(min(gap_ref, gap_tied) / spread - 1), NaN as 0)

the means over the k that are there in both kinds. So the score lies in -.01 to 1.01.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.errors import DataError
from tasks.evaluation.benchmarks.combining import Figure
from tasks.evaluation.benchmarks.items import Item, Scored
from tasks.evaluation.measures.intervals import mean_interval

ID = re.compile(r"(ref|tied):(\d+)")
WEIGHTS = {
    "tied_accuracy": 0.30,
    "ref_accuracy": 0.30,
    "above_spread": 0.20,
    "above_spread_hard": 0.20,
    "margin": 0.01,
}


@dataclass(frozen=True)
class Prompt:
    """The verdict on one prompt."""

    gap: float
    spread: float


@dataclass(frozen=True)
class Ties:
    """The subset's score with its five parts."""

    figure: Figure
    parts: dict[str, Any]


def number(id: str) -> tuple[str, int] | None:
    """`("ref", 3)` of `ref:3`; None of another id."""
    found = ID.fullmatch(id)
    return (found[1], int(found[2])) if found else None


def check(items: Sequence[Item]) -> None:
    """Raises DataError where two different prompts share an id; the same prompt may come in
    several rows, whose answers count together."""
    first: dict[str, Item] = {}
    for item in items:
        other = first.setdefault(item.id, item)
        if other.prompt != item.prompt:
            raise item.place.wrong(
                "id", item.id, f"an id of its own: row {other.place.row} has it for another prompt"
            )


def judge(scored: Sequence[Scored]) -> Ties:
    """The score of the subset; a part that no prompt is there for counts 0, as officially."""
    prompts = _prompts(scored)
    ref = {k: p for (kind, k), p in prompts.items() if kind == "ref"}
    tied = {k: p for (kind, k), p in prompts.items() if kind == "tied"}
    both = sorted(set(ref) & set(tied))
    spread = np.array([tied[k].spread for k in both])
    own = np.array([tied[k].gap for k in both])
    least = np.minimum(own, np.array([ref[k].gap for k in both]))
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.nan_to_num(np.tanh(least / spread - 1), nan=0.0)
    columns = {
        "tied_accuracy": np.array([p.gap > 0 for p in tied.values()], np.float64),
        "ref_accuracy": np.array([p.gap > 0 for p in ref.values()], np.float64),
        "above_spread": (own > spread).astype(np.float64),
        "above_spread_hard": (least > spread).astype(np.float64),
        "margin": margin,
    }
    parts: dict[str, float] = {n: float(c.mean()) if len(c) else 0.0 for n, c in columns.items()}
    score = sum(weight * parts[name] for name, weight in WEIGHTS.items())
    # Where each k has both prompts, the score is a mean over k of one value each.
    interval = None
    if both and len(both) == len(ref) == len(tied):
        order = {"tied_accuracy": list(tied), "ref_accuracy": list(ref)}
        each = sum(
            weight * (columns[n][np.argsort(order[n])] if n in order else columns[n])
            for n, weight in WEIGHTS.items()
        )
        interval = mean_interval(np.asarray(each))
    counts = {"ref_prompts": len(ref), "tied_prompts": len(tied), "in_both": len(both)}
    return Ties(Figure(score, interval, len(scored)), parts | counts)


def _prompts(scored: Sequence[Scored]) -> dict[tuple[str, int], Prompt]:
    right: dict[tuple[str, int], list[float]] = {}
    wrong: dict[tuple[str, int], list[float]] = {}
    for each in scored:
        name = number(each.item.id)
        if name is None:
            raise DataError(f"{each.item.id!r} is no id of the subset Ties")
        right.setdefault(name, []).extend(each.right)
        wrong.setdefault(name, []).extend(each.wrong)
    return {name: Prompt(min(r) - max(wrong[name]), max(r) - min(r)) for name, r in right.items()}
