"""The evaluation as one page that a person wants to read: `report.html`.

In: `metrics.json`, the tables and plots of an evaluation artifact; once a model is registered also
the decision on it, how it stands beside the champion, links, and provenance. Out: one HTML file
that needs nothing else: no script, no address outside, pictures within.

    html = report_of(evaluation.path, decision=decision.to_json(), links=[("MLflow run", url)])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.evaluation.report.page import render_report, report_of

__all__ = ["render_report", "report_of"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.page"), name)
