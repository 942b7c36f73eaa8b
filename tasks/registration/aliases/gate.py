"""Whether a model may serve: every bound of the gate with its figure, and what follows.

    rejected     it fails a bound that stands for itself: it gets no alias
    challenger   it is fit, but does not beat the champion, or is worse on a source
    champion     it is fit, and beats the champion or finds none

In: the figures of `metrics.json`, and the scores of model and champion on the frozen pairs. Out: a
decision with its reasons. Nothing here asks the registry.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tasks.evaluation.measures.concerns import hollow_answers
from tasks.evaluation.measures.null_models import best_null_model
from tasks.registration.params import GateParams
from tasks.registration.registry import CHALLENGER, CHAMPION

Outcome = Literal["champion", "challenger", "rejected"]

REJECTED: Outcome = "rejected"
MOST_NAMED = 10
"""Bounds that fail which a reason names: with a thousand sources it might be as many."""


@dataclass(frozen=True)
class Bound:
    """One bound: the figure, what was asked of it, and whether it holds."""

    name: str
    value: float | None
    relation: Literal[">=", "<="]
    bound: float
    holds: bool
    otherwise: Outcome = REJECTED
    """The most that a model can be which fails it."""
    note: str = ""

    def __str__(self) -> str:
        value = "not computable" if self.value is None else f"{self.value:.4g}"
        note = f" ({self.note})" if self.note else ""
        verdict = "holds" if self.holds else "fails"
        return f"{self.name} {value}, bound {self.relation} {self.bound:g}: {verdict}{note}"


@dataclass(frozen=True)
class Decision:
    """What a version is found to be, and why; `bounds` in the order in which they were judged."""

    outcome: Outcome
    reason: str
    bounds: tuple[Bound, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `registered.json` and the version's tags hold it."""
        return {
            "outcome": self.outcome,
            "reason": self.reason,
            "bounds": [asdict(bound) for bound in self.bounds],
        }


def decision_of(stored: Mapping[str, Any]) -> Decision:
    """The inverse of `to_json`."""
    bounds = tuple(Bound(**bound) for bound in stored["bounds"])
    return Decision(stored["outcome"], stored["reason"], bounds)


def fitness(metrics: Mapping[str, Any], gate: GateParams) -> tuple[Bound, ...]:
    """The bounds that a model must hold by itself."""
    overall, bias, ready = metrics["overall"], metrics["bias"], metrics["readiness"]
    low = overall["accuracy_interval"][0]
    name, null = best_null_model(bias["null_models"]) or ("none", None)
    lead = None if null is None else overall["accuracy"] - null
    correlation = bias["length"]["partial_correlation"]
    strength = None if correlation is None else abs(correlation)
    signed = "" if correlation is None else f"is {correlation:+.3f}"
    share, ties = bias["prompt"]["share_of_variance"], ready["bfloat16"]["tie_rate"]
    kinds = hollow_answers(metrics)
    count, listed = (None, "") if kinds is None else (len(kinds), ", ".join(kinds))
    figures: list[tuple[str, float | None, Literal[">=", "<="], float | None, str]] = [
        ("min_accuracy", overall["accuracy"], ">=", gate.min_accuracy, ""),
        ("min_accuracy_low", low, ">=", gate.min_accuracy_low, "lower end of 95 %"),
        ("min_lead_over_null", lead, ">=", gate.min_lead_over_null, f"over {name}"),
        ("max_length_correlation", strength, "<=", gate.max_length_correlation, signed),
        ("max_prompt_share", share, "<=", gate.max_prompt_share, ""),
        ("max_tie_rate", ties, "<=", gate.max_tie_rate, "at bfloat16"),
        ("max_degenerate", count, "<=", gate.max_degenerate, listed),
    ]
    return tuple(
        Bound(name, value, relation, bound, _holds(value, relation, bound), note=note)
        for name, value, relation, bound, note in figures
        if bound is not None
    )


def _holds(value: float | None, relation: Literal[">=", "<="], bound: float) -> bool:
    if value is None:
        return False
    return value >= bound if relation == ">=" else value <= bound


def decide(bounds: tuple[Bound, ...], beats: bool, comparison: str) -> Decision:
    """The outcome of all bounds; `comparison` says how it stands beside the champion."""
    failed = [bound for bound in bounds if not bound.holds]
    unfit = [bound for bound in failed if bound.otherwise == REJECTED]
    if unfit:
        return Decision(REJECTED, f"unfit: {_listed(unfit)}", bounds)
    if failed:
        return Decision(CHALLENGER, f"{_listed(failed)}; {comparison}", bounds)
    return Decision(CHAMPION if beats else CHALLENGER, comparison, bounds)


def _listed(failed: list[Bound]) -> str:
    named = "; ".join(map(str, failed[:MOST_NAMED]))
    more = len(failed) - MOST_NAMED
    return named if more <= 0 else f"{named}; {more} more fail{'s' if more == 1 else ''}"
