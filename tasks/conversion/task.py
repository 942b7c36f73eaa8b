"""The conversion stage: raw rows -> canonical preference pairs, with splits and a quarantine.

In:  an ingestion artifact, and what the params say of its sources (layout, columns).
Out: pairs/NNNNN.parquet, quarantine.parquet, and the report (ledger, splits, duplicates,
     contradictions, the length-only baseline, what was normalised).

Resumable by units: `rows-NNNNN` (a shard's rows became pairs), `pairs-NNNNN` (its duplicates are
out). What lies between them, the verdicts over all shards, is computed again after a kill. Sources
of which several rows make a pair are first laid out anew (`routed-NNNNN`, `grouped-NNNNN`).
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.artifact import Artifact, Ledger, Step, Workspace, file_digest, input_digests
from tasks.artifact.ledger import QUARANTINE_FILE
from tasks.conversion.layouts import LAYOUTS, check_declared, options_of, recognise
from tasks.conversion.options import Options
from tasks.conversion.params import ConversionParams
from tasks.errors import ParamsError
from tasks.ingestion.params import Source, Use
from tasks.ingestion.shards import ROWS, row_shards

if TYPE_CHECKING:
    from tasks.conversion.plan import Plan
    from tasks.conversion.tolerance import Earlier

logger = logging.getLogger(__name__)

STAGE = "conversion"
SHELF = "2_conversion"
VERSION = 23
SAMPLE_ROWS = 20
"""First good rows of a source by which its layout is recognised."""


def step(params: ConversionParams, sources: Sequence[Source], ingestion: Artifact) -> Step:
    """The step that converts the rows of `ingestion`.

    Of the sources, the key holds layout, columns, options and use, whatever their order: the rows'
    own order is ingestion's.

    Raises:
        ParamsError: a layout, a mapped name or an option is unknown, an option is wrong, or the
            file of overrides is not there.
    """
    check_sources(sources)
    check_overrides(params)
    declared = {
        s.name: {"layout": s.layout, "columns": s.columns or {}, "options": s.options or {}}
        | ({} if s.use == "both" else {"use": s.use})
        for s in sources
    }
    return Step(
        stage=STAGE,
        version=VERSION,
        shelf=SHELF,
        params={"conversion": params, "sources": declared},
        inputs={"ingestion": ingestion},
        files={"overrides": file_digest(params.overrides)} if params.overrides else {},
        build=partial(build, params=params, sources=tuple(sources), ingestion=ingestion),
        places={"conversion": STAGE, "sources": "ingestion.sources"},
    )


def check_sources(sources: Sequence[Source]) -> None:
    """Refuses what the params say of layouts, before any work.

    Raises:
        ParamsError: a layout, a mapped name or an option is unknown, or an option is wrong.
    """
    for source in sources:
        check_declared(source.name, source.layout, source.columns or {}, source.options or {})


def check_overrides(params: ConversionParams) -> None:
    """Refuses a file of overrides that is not there.

    Raises:
        ParamsError: as above.
    """
    if params.overrides and not params.overrides.is_file():
        raise ParamsError(
            f"conversion.overrides: {params.overrides} is no file; name one with pair_id and action"
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
    from tasks.conversion import report
    from tasks.conversion.enough_left import check_enough_left
    from tasks.conversion.first_pass.groups import laid_out
    from tasks.conversion.first_pass.shard_records import records
    from tasks.conversion.passes import Passes
    from tasks.conversion.second_pass.cycles import cyclic_pairs
    from tasks.conversion.second_pass.duplicates import judge
    from tasks.conversion.second_pass.kept import counted
    from tasks.conversion.second_pass.leakage import near_duplicates
    from tasks.conversion.second_pass.selection import applied
    from tasks.conversion.second_pass.uses import set_apart

    given = row_shards(ingestion)
    plan = plan_sources(params, sources, given)
    single, grouped = laid_out(workspace, given, plan, params.workers or 1)
    rows = single + grouped
    passes = Passes(workspace, plan, rows, input_digests(ingestion, ROWS), params.workers)
    summaries = passes.convert()
    ledger = report.incoming(summaries)
    examples = report.examples_of(summaries)
    report.check_usable(ledger, examples, params, _lost_in(ingestion))
    keys = records([passes.keys(r) for r in rows])
    apart = set_apart(keys, [plan.uses.get(name, "both") for name in plan.layouts])
    decided = report.decided_keys(summaries)
    verdicts = judge(keys, params.contradictions, decided, apart)
    codes = applied(verdicts, params)
    with ThreadPoolExecutor(1, "near") as pool:  # most of it is numpy's, beside the disk's work
        near = pool.submit(near_duplicates, keys, codes)
        kept = counted(keys, codes, list(plan.layouts), verdicts.preferences)
        passes.select(codes, [len(mine) for mine in keys], verdicts.preferences)
        cycles = cyclic_pairs(keys, codes)
        ledger.merge(kept.ledger)
        ledger.check()
        check_enough_left(ledger, examples, params)
        workspace.report.update(report.finished(ledger, kept, verdicts, summaries, params))
    facts = workspace.report
    facts["overrides"] = report.overridden(plan.overrides, summaries)
    facts["warnings"] = report.override_warnings(facts["overrides"], params)
    for warning in facts["warnings"]:
        logger.warning("%s", warning)
    facts["cycles"] = cycles
    facts["near_duplicates"] = near.result()
    facts["layouts"] = {name: layout for name, (layout, *_) in plan.layouts.items()}
    _merge_quarantines(workspace, rows)


def _merge_quarantines(workspace: Workspace, rows: Sequence[Path]) -> None:
    """Writes one quarantine of those of all shards."""
    from tasks.conversion import shards
    from tasks.ingestion.quarantine import merge

    quarantines = workspace.path / shards.QUARANTINES
    parts = [
        path
        for r in rows
        for part in ("", shards.CONTRADICTIONS)
        if (path := quarantines / f"{r.stem}{part}.parquet").exists()
    ]
    with workspace.writing(QUARANTINE_FILE, "later") as path:
        merge(parts, path)


def _lost_in(ingestion: Artifact) -> "Earlier":
    from tasks.conversion.tolerance import Earlier

    ledger = Ledger.from_json(ingestion.report["ledger"])
    return Earlier(ingestion.stage, ledger, ingestion.path / QUARANTINE_FILE)


def plan_sources(
    params: ConversionParams, sources: Sequence[Source], rows: Sequence[Path]
) -> "Plan":
    """The layout of every source: as declared, or recognised from its first good rows.

    Raises:
        DataError: no layout fits, or several do, or a mapped column does not exist.
    """
    from tasks.conversion.overrides import read_overrides
    from tasks.conversion.plan import Plan
    from tasks.conversion.samples import first_rows

    samples = first_rows(rows, [source.name for source in sources], SAMPLE_ROWS)
    overrides = read_overrides(params.overrides) if params.overrides else {}
    layouts: dict[str, tuple[str, Mapping[str, str], Options]] = {}
    for s in sorted(sources, key=lambda source: source.name):  # their order is not in the key
        first, places = samples[s.name]
        layout = recognise(s.name, s.layout, s.columns or {}, first, s.options, places)
        assert layout in LAYOUTS
        layouts[s.name] = layout, s.columns or {}, options_of(s.name, layout, s.options or {})
    held_out = params.seed, params.eval_fraction, params.split_by
    uses: dict[str, Use] = {s.name: s.use for s in sources if s.use != "both"}
    return Plan(layouts, *held_out, params.ties, overrides, uses)
