"""From the figures to what a person looks at: the plots, the pairs to read, and the page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks.artifact import Workspace
from tasks.evaluation.report.curves import draw_all
from tasks.evaluation.report.page import report_of
from tasks.evaluation.report.samples import sample_table
from tasks.evaluation.tables.scores import Scores


def write_pages(
    scores: Scores,
    metrics: Mapping[str, Any],
    bins: int,
    conversion: Path | None,
    provenance: Mapping[str, Any],
    workspace: Workspace,
) -> None:
    """Writes `plots/`, `samples.parquet` where conversion is given, and `report.html`, which shows
    both; `bins` as for `draw_all`, `provenance` as for `render_report`."""
    draw_all(scores, metrics, bins, workspace)
    if conversion is not None:
        with workspace.writing("samples.parquet") as path:
            pq.write_table(sample_table(scores, conversion), path, compression="zstd")
    page = report_of(workspace.path, provenance=provenance)
    with workspace.writing("report.html") as path:
        path.write_text(page, "utf-8")
