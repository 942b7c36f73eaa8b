"""The ingestion stage: files of every source -> rows/NNNNN.parquet and quarantine.parquet.

Each file is one resumable unit. Its shards are written below `scratch/`. They are numbered in the
order of sources and files once every file is read, so a resumed build gives the same bytes.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.artifact import Ledger, Memo, Step, Workspace
from tasks.artifact.digests import move
from tasks.artifact.ledger import QUARANTINE_FILE
from tasks.errors import DataError
from tasks.ingestion.columns import check_same_columns
from tasks.ingestion.mixture import apply_caps
from tasks.ingestion.params import IngestionParams, Source, key_fields
from tasks.ingestion.places.files import SourceFile
from tasks.ingestion.places.originals import Located, locate
from tasks.ingestion.places.unread_files import some_of
from tasks.ingestion.reading import Matched, read_all, unit_of
from tasks.ingestion.shards import ROWS

logger = logging.getLogger(__name__)

STAGE = "ingestion"
SHELF = "1_ingestion"
VERSION = 17
MARKS = 3
"""Version of the form in which marks are kept; those of another version are not read."""

Summaries = Mapping[str, Sequence[dict[str, Any]]]
"""Source name -> the summary of each of its files that was read, in order."""


def step(params: IngestionParams) -> Step:
    """The step that reads every source; files are matched here, and hashed or pinned.

    The key holds each source's name, limits, delimiter and files: by name and content, a URL by the
    version that its server gives, a hub dataset by its commit. Layout and columns are conversion's.

    Raises:
        DataError: a source's path matches nothing, or something that cannot be read.
    """
    located = {source.name: locate(source) for source in params.sources}
    return Step(
        stage=STAGE,
        version=VERSION,
        shelf=SHELF,
        params={
            "sources": [
                key_fields(source) | dict(located[source.name].identity)
                for source in params.sources
            ]
        },
        inputs={},
        build=lambda workspace: build(workspace, params, located),
        files={
            f"{s}/{name}": pin for s, files in located.items() for name, pin in files.pins.items()
        },
    )


def build(workspace: Workspace, params: IngestionParams, located: Mapping[str, Located]) -> None:
    """Writes the rows of every source; ledger, sources and warnings go into the report.

    Raises:
        DataError: a file cannot be used, or a source has no usable row.
    """
    fetched = {name: files.fetch(workspace) for name, files in located.items()}
    matched = {name: each.files for name, each in fetched.items()}
    memo = _memo(workspace, matched)
    summaries = read_all(workspace, params, matched, memo)
    for source in params.sources:
        declared = {s["file"]: s["columns"] for s in summaries[source.name] if s["columns"]}
        check_same_columns(source.name, declared)
        units = [unit_of(source.name, index) for index in range(len(summaries[source.name]))]
        summaries[source.name] = apply_caps(workspace, source, units, summaries[source.name])
    ledger = Ledger()
    for each in summaries.values():
        for summary in each:
            ledger.merge(Ledger.from_json(summary["ledger"]))
    ledger.check()
    warnings = [line for each in summaries.values() for s in each for line in s["warnings"]]
    for source in params.sources:
        warnings += _check_source(source, matched[source.name], summaries[source.name], ledger)
    for warning in warnings:
        logger.warning("%s", warning)
    _publish(workspace, params, summaries, memo)
    workspace.report["ledger"] = ledger.to_json()
    workspace.report["sources"] = {
        name: {
            "files": len(files),
            "files_read": len(summaries[name]),
            "bytes": sum(file.size for file in files),
            "rows": ledger.accounts[name].rows_out,
            **fetched[name].facts,
        }
        for name, files in matched.items()
    }
    workspace.report["warnings"] = warnings


def _memo(workspace: Workspace, matched: Matched) -> Memo:
    """The memo of earlier artifacts' shards of each file; the key is its source and its name."""
    files = {
        unit_of(source, index): f"{source}\0{file.name}"
        for source, of_source in matched.items()
        for index, file in enumerate(of_source)
    }
    return Memo(workspace, files, step={"stage": STAGE, "version": VERSION, "marks": MARKS})


def _check_source(
    source: Source, files: Sequence[SourceFile], summaries: Sequence[dict[str, Any]], ledger: Ledger
) -> list[str]:
    """Warnings about files without rows.

    Raises:
        DataError: the source has no row at all, or none that can be used.
    """
    account = ledger.accounts.get(source.name)
    read = files[: len(summaries)]
    empty = [f.name for f, s in zip(read, summaries, strict=True) if not s["counted"]]
    without = f"source {source.name!r}: empty_file: no row in {some_of(empty)}"
    if account is None or len(empty) == len(read):
        raise DataError(f"{without}; give a file with rows or remove the source")
    if account.rows_out == 0:
        raise DataError(
            f"source {source.name!r}: none of its {account.rows_in:,} rows can be used. "
            f"{_reasons(account.dropped, summaries)}"
        )
    return [f"{without}; its other files have some"] if empty else []


def _reasons(dropped: Mapping[str, int], summaries: Sequence[dict[str, Any]]) -> str:
    """The three most frequent reasons, each with an example."""
    examples: dict[str, str] = {}
    for summary in summaries:
        examples = summary["examples"] | examples
    frequent = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))[:3]
    texts = {"capped": "left out by weight or cap", **examples}
    return " ".join(f"{reason} ({n:,}): {texts.get(reason, 'blank')}." for reason, n in frequent)


def _publish(
    workspace: Workspace, params: IngestionParams, summaries: Summaries, memo: Memo
) -> None:
    """Moves the shards to their final numbers and merges the quarantines; safe to repeat."""
    from tasks.ingestion.quarantine import merge

    rows = workspace.path / ROWS
    rows.mkdir(exist_ok=True)
    number = 0
    parts: list[Path] = []
    for source in params.sources:
        for index, summary in enumerate(summaries[source.name]):
            unit = unit_of(source.name, index)
            parts.append(workspace.scratch / unit / QUARANTINE_FILE)
            directory = workspace.scratch / summary.get("unit", unit)
            first = number
            for shard in range(summary["shards"]):
                place = rows / f"{number:05d}.parquet"
                if not place.exists():  # else it was moved there before a kill
                    move(directory / f"{shard:05d}.parquet", place)
                number += 1
            if summary.get("for_next_run"):
                files = [f"{ROWS}/{n:05d}.parquet" for n in range(first, number)]
                memo.keep(unit, files, summary["for_next_run"])
    # Written last: if it exists, all is in place, and its parts may be gone with the scratch.
    if not (workspace.path / QUARANTINE_FILE).exists():
        with workspace.writing(QUARANTINE_FILE) as path:
            merge(parts, path)
