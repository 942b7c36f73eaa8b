"""The tables that registration adds to the page: gate, champion, provenance."""

from collections.abc import Iterable, Mapping
from typing import Any

from tasks.evaluation.report.layout import Figures, Table
from tasks.evaluation.report.wording import count, number, plain, share, worded


def champion(against: Figures) -> list[Table]:
    """The model beside the champion on the same pairs."""
    scale, drift = against["scale"]["new_to_old"], against["drift"]
    agreement, matched = against["agreement"], against["scale"]["matched"] or {}
    rows = [
        ["pairs with the same verdict", share(agreement["same_verdict"])],
        ["Kendall's tau of the margins", number(agreement["tau_margins"])],
        ["Kendall's tau of the rewards", number(agreement["tau_rewards"])],
        ["mean reward, new less old", number(drift["mean"])],
        ["deviation, new less old", number(drift["std"])],
        ["to the old mean and deviation: slope", number(matched.get("slope"))],
        ["to the old mean and deviation: intercept", number(matched.get("intercept"))],
        ["least squares: slope", number(scale["slope"])],
        ["least squares: intercept", number(scale["intercept"])],
        ["least squares: R²", number(scale["r2"])],
    ]
    note = (
        f"{count(agreement['pairs'])} pairs. The loader carries rewards to the old mean and "
        "deviation where it is asked for the champion's scale."
    )
    return [Table("Beside the champion, on the same pairs", ("", "figure"), rows, note)]


def bounds(decision: Figures) -> Table | None:
    """The gate's bounds, in the order in which they were judged."""
    rows = [
        [
            f"{_bound_name(b['name'])}{' (' + b['note'] + ')' if b.get('note') else ''}",
            "holds" if b["holds"] else f"fails: {b['otherwise']}",
            "not computable" if b["value"] is None else plain(b["value"]),
            f"{b['relation']} {b['bound']:g}",
        ]
        for b in decision.get("bounds") or ()
    ]
    heads = ("bound", "verdict", "figure", "asked")
    failed = frozenset(i for i, b in enumerate(decision.get("bounds") or ()) if not b["holds"])
    return Table("The gate", heads, rows, names=2, strong=failed) if rows else None


def _bound_name(name: str) -> str:
    """`max source drop, votes` of `max_source_drop.votes`; a source keeps its own name."""
    what, dot, source = name.partition(".")
    return f"{worded(what)}, {source}" if dot else worded(what)


def facts(title: str, found: Figures) -> Table:
    """Nested facts, one a row."""
    rows = [[name, text] for name, text in _flattened(found, "")]
    return Table(title, ("name", "value"), rows, names=2, folded=True)


def _flattened(value: Any, name: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flattened(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _flattened(inner, f"{name}.{place}")
    else:
        yield name, plain(value)
