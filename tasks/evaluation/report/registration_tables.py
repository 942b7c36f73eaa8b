"""The tables that registration adds to the page: gate, champion, provenance."""

from collections.abc import Iterable, Mapping
from typing import Any

from tasks.evaluation.report.layout import Figures, Table
from tasks.evaluation.report.wording import number, plain, share, worded


def champion(against: Figures) -> list[Table]:
    """The model beside the champion on the same pairs."""
    scale, drift = against["scale"]["new_to_old"], against["drift"]
    agreement = against["agreement"]
    rows = [
        ["pairs with the same verdict", share(agreement["same_verdict"])],
        ["Kendall's tau of the margins", number(agreement["tau_margins"])],
        ["Kendall's tau of the rewards", number(agreement["tau_rewards"])],
        ["mean reward, new less old", number(drift["mean"])],
        ["deviation, new less old", number(drift["std"])],
        ["to the old scale: slope", number(scale["slope"])],
        ["to the old scale: intercept", number(scale["intercept"])],
        ["R² of that map", number(scale["r2"])],
    ]
    return [Table("Beside the champion, on the same pairs", ("", "figure"), rows)]


def bounds(decision: Figures) -> Table | None:
    """The gate's bounds, in the order in which they were judged."""
    rows = [
        [
            f"{worded(b['name'])}{' (' + b['note'] + ')' if b.get('note') else ''}",
            "holds" if b["holds"] else f"fails: {b['otherwise']}",
            "not computable" if b["value"] is None else number(b["value"]),
            f"{b['relation']} {b['bound']:g}",
        ]
        for b in decision.get("bounds") or ()
    ]
    heads = ("bound", "verdict", "figure", "asked")
    failed = frozenset(i for i, b in enumerate(decision.get("bounds") or ()) if not b["holds"])
    return Table("The gate", heads, rows, names=2, strong=failed) if rows else None


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
