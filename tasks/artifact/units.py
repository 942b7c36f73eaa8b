"""A stage of rows, shard by shard: resumable, with one ledger and one quarantine at its end."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tasks.artifact.ledger import Ledger, Quarantine
from tasks.artifact.step import Workspace
from tasks.errors import DataError

QUARANTINE_FILE = "quarantine.parquet"

ShardWork = Callable[[Path, Ledger, Quarantine], dict[str, Any]]
"""Turns one shard into output files, counts its rows, and returns numbers to be kept."""


def build_shards(
    workspace: Workspace, stage: str, shards: Sequence[Path], work: ShardWork
) -> list[dict[str, Any]]:
    """The numbers of every shard, in order; shards that an earlier attempt finished are not redone.

    Leaves `quarantine.parquet` in the workspace and the balanced ledger in its report.

    Raises:
        DataError: no row is left.
    """
    ledger, quarantine = Ledger(), Quarantine(stage)
    numbers: list[dict[str, Any]] = []
    for shard in tqdm(shards, desc=stage, unit="shard", disable=None):
        summary = workspace.finished(shard.stem) or _build_one(workspace, stage, shard, work)
        ledger.merge(Ledger.from_json(summary["ledger"]))
        quarantine.extend(summary["quarantine"])
        numbers.append(summary["numbers"])
    ledger.check()
    if ledger.rows_out == 0:
        raise DataError(
            f"{stage}: no row is left of {ledger.rows_in}; dropped {ledger.dropped}. "
            + example(quarantine)
        )
    with workspace.writing(QUARANTINE_FILE) as path:
        quarantine.write(path)
    workspace.report["ledger"] = ledger.to_json()
    return numbers


def example(quarantine: Quarantine) -> str:
    """The first quarantined row in one sentence."""
    if not quarantine.rows:
        return "No row was quarantined: look at the ledger of the stage before."
    row = quarantine.rows[0]
    return f"The first: {row['file']}:{row['row']} {row['reason']}: {row['message']}"


def _build_one(workspace: Workspace, stage: str, shard: Path, work: ShardWork) -> dict[str, Any]:
    ledger, quarantine = Ledger(), Quarantine(stage)
    numbers = work(shard, ledger, quarantine)
    ledger.check()
    summary = {"ledger": ledger.to_json(), "quarantine": quarantine.rows, "numbers": numbers}
    workspace.finish(shard.stem, summary)
    return summary
