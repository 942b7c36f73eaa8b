"""The evaluation as one page that a person wants to read: `report.html`.

In: `metrics.json`, the tables and plots of an evaluation artifact; once a model is registered also
the decision on it, how it stands beside the champion, links, and provenance. Out: one HTML file
that needs nothing else: no script, no address outside, pictures within.

    html = report_of(evaluation.path, decision=decision.to_json(), links=[("MLflow run", url)])
"""

from tasks.evaluation.report.page import render_report, report_of

__all__ = ["render_report", "report_of"]
