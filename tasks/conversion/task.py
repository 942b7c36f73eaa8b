"""The conversion stage: raw rows -> canonical preference pairs, with splits and a quarantine.

In:  an ingestion artifact, and what the params say of its sources (layout, columns).
Out: pairs/NNNNN.parquet, quarantine.parquet, and the report (ledger, splits, duplicates,
     contradictions, the length-only baseline, what was normalised).

Resumable by units: `rows-NNNNN` (a shard's rows became pairs), `pairs-NNNNN` (its duplicates are
out). What lies between them, the verdicts over all shards, is computed again after a kill. Sources
of which several rows make a pair are first laid out anew (`routed-NNNNN`, `grouped-NNNNN`).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifact import Artifact, Step, Workspace
from tasks.conversion.layouts import LAYOUTS, check_declared, options_of, recognise
from tasks.conversion.options import Options
from tasks.conversion.params import ConversionParams
from tasks.ingestion.params import Source
from tasks.ingestion.shards import row_shards

if TYPE_CHECKING:
    from tasks.conversion.rows import Plan

STAGE = "conversion"
SHELF = "2_conversion"
VERSION = 3
SAMPLE_ROWS = 20
"""First good rows of a source by which its layout is recognised."""


def step(params: ConversionParams, sources: Sequence[Source], ingestion: Artifact) -> Step:
    """The step that converts the rows of `ingestion`.

    Of the sources, the key holds layout, columns and options, whatever their order: the rows' own
    order is ingestion's.

    Raises:
        ParamsError: a layout, a mapped name or an option is unknown, or an option is wrong.
    """
    for source in sources:
        check_declared(source.name, source.layout, source.columns or {}, source.options or {})
    declared = {
        s.name: {"layout": s.layout, "columns": s.columns or {}, "options": s.options or {}}
        for s in sources
    }
    return Step(
        stage=STAGE,
        version=VERSION,
        shelf=SHELF,
        params={"conversion": params, "sources": declared},
        inputs={"ingestion": ingestion},
        build=partial(build, params=params, sources=tuple(sources), ingestion=ingestion),
    )


def build(
    workspace: Workspace,
    params: ConversionParams,
    sources: Sequence[Source],
    ingestion: Artifact,
) -> None:
    """Converts every shard, drops duplicates and contradictions, and leaves the report.

    Raises:
        DataError: a layout cannot be recognised; too many rows of a source are unusable; no pair,
            or none for one of the splits, is left.
    """
    from tasks.conversion import report, shards
    from tasks.conversion.cycles import cyclic_pairs
    from tasks.conversion.duplicates import judge
    from tasks.conversion.groups import laid_out
    from tasks.conversion.leakage import near_duplicates
    from tasks.ingestion.quarantine import merge

    given = row_shards(ingestion)
    plan = plan_sources(params, sources, given)
    single, grouped = laid_out(workspace, given, plan, params.workers)
    rows = single + grouped
    summaries = _convert(workspace, rows, plan, params.workers)
    ledger = report.incoming(summaries)
    examples = report.examples_of(summaries)
    report.check_usable(ledger, examples, params)
    verdicts = judge([_keys(workspace, r) for r in rows])
    kept = _select(workspace, rows, verdicts, params, list(plan.layouts))
    ledger.merge(kept.ledger)
    ledger.check()
    report.check_enough_left(ledger, examples, params)
    workspace.report.update(report.finished(ledger, kept, verdicts, summaries, params))
    told = workspace.report
    told["cycles"] = cyclic_pairs([_keys(workspace, r) for r in rows], kept.codes)
    pairs = [workspace.path / shards.PAIRS / f"{r.stem}.parquet" for r in rows]
    told["near_duplicates"] = near_duplicates(pairs, told["train"], told["eval"])
    workspace.report["layouts"] = {name: layout for name, (layout, *_) in plan.layouts.items()}
    quarantines = workspace.path / shards.QUARANTINES
    parts = [
        quarantines / f"{r.stem}{part}.parquet" for r in rows for part in ("", "-contradictions")
    ]
    with workspace.writing(shards.QUARANTINE_FILE) as path:
        merge(parts, path)


def plan_sources(
    params: ConversionParams, sources: Sequence[Source], rows: Sequence[Path]
) -> "Plan":
    """The layout of every source: as declared, or recognised from its first good rows.

    Raises:
        DataError: no layout fits, or several do, or a mapped column does not exist.
    """
    from tasks.conversion.rows import Plan
    from tasks.conversion.samples import first_rows

    samples = first_rows(rows, [source.name for source in sources], SAMPLE_ROWS)
    layouts: dict[str, tuple[str, Mapping[str, str], Options]] = {}
    for s in sorted(sources, key=lambda source: source.name):  # their order is not in the key
        layout = recognise(s.name, s.layout, s.columns or {}, samples[s.name])
        assert layout in LAYOUTS
        layouts[s.name] = layout, s.columns or {}, options_of(s.name, layout, s.options or {})
    return Plan(layouts, params.seed, params.eval_fraction, params.ties)


def _convert(
    workspace: Workspace, rows: Sequence[Path], plan: "Plan", workers: int
) -> list[dict[str, Any]]:
    """Pass 1: the summary of every shard, in order; finished ones are not redone."""
    from tasks.conversion.processes import each
    from tasks.conversion.rows import convert_shard

    left = [shard for shard in rows if workspace.finished(f"rows-{shard.stem}") is None]
    done = len(rows) - len(left)
    each(partial(convert_shard, workspace, plan=plan), left, workers, "conversion: rows", done)
    return [workspace.finished(f"rows-{shard.stem}") or {} for shard in rows]


def _keys(workspace: Workspace, rows: Path) -> Path:
    from tasks.conversion import shards

    return workspace.path / shards.KEY_ARRAYS / f"{rows.stem}.npy"


def _select(
    workspace: Workspace,
    rows: Sequence[Path],
    verdicts: Any,
    params: ConversionParams,
    sources: Sequence[str],
) -> Any:
    """Pass 2: writes every shard's pairs that are kept, and counts them."""
    import numpy as np
    from tqdm import tqdm

    from tasks.conversion import selection

    codes, start = selection.applied(verdicts, params), 0
    kept = selection.Kept(sources, codes)
    for shard in tqdm(rows, desc="conversion: pairs", unit="shard", disable=None):
        keys = np.load(_keys(workspace, shard))
        mine = codes[start : start + len(keys)]
        start += len(keys)
        kept.add(keys, mine)
        if workspace.finished(f"pairs-{shard.stem}") is None:
            selection.select(workspace, shard, mine, keys)
    return kept
