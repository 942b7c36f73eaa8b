"""Builds a stage shard by shard: resumable, in several processes, with one ledger and quarantine.
A shard that an earlier artifact already holds is reused (`memo`).

In:  the paths of the input shards, and the function that turns one of them into output files.
Out: output files and quarantine in the workspace; what the function returned for each shard.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.artifact.ledger import QUARANTINE_FILE, Ledger, Quarantine
from tasks.artifact.memo import Memo
from tasks.artifact.processes import each, worthwhile
from tasks.artifact.record import LOGS
from tasks.artifact.step import SCRATCH, UNITS, Workspace
from tasks.errors import DataError

REUSED = "shards_reused"
"""Name in the report: how many shards came from an earlier artifact, as `3 of 12`."""

ShardWork = Callable[[Path, Ledger, Quarantine], dict[str, Any]]
"""Turns one input shard into files `<folder>/<stem of the shard>.<anything>`, counts its rows in
the ledger, and returns numbers to be kept, as JSON data. Picklable if there are several workers."""


def build_shards(
    workspace: Workspace,
    stage: str,
    shards: Sequence[Path],
    work: ShardWork,
    *,
    workers: int | None = 1,
    memo: Memo | None = None,
) -> list[dict[str, Any]]:
    """Builds all shards that no earlier attempt has finished; returns what `work` returned for
    every shard, in order.

    `workers` None: one per core if there is enough to do. Writes `quarantine.parquet`, and the
    ledger and the number of reused shards into the workspace's report.

    Raises:
        DataError: every row was dropped.
    """
    left = [shard for shard in shards if workspace.finished(shard.stem) is None]
    taken = memo.take_all([shard.stem for shard in left]) if memo else {}
    missing = [shard for shard in left if taken.get(shard.stem) is None]
    one = ShardBuilder(workspace, stage, work, memo)
    each(one, missing, workers or worthwhile(missing), stage, len(shards) - len(missing))
    ledger, quarantine = Ledger(), Quarantine(stage)
    numbers: list[dict[str, Any]] = []
    for shard in shards:
        summary = taken.get(shard.stem) or workspace.finished(shard.stem)
        assert summary is not None, "each shard has just been built"
        ledger.merge(Ledger.from_json(summary["ledger"]))
        quarantine.extend(summary["quarantine"])
        numbers.append(summary["numbers"])
    ledger.check()
    if ledger.rows_out == 0:
        if memo:
            memo.fsync_links()
        for unit, summary in taken.items():  # a caller that catches this reads all summaries
            if summary is not None:
                workspace.finish(unit, summary)
        raise DataError(
            f"{stage}: no row is left of {ledger.rows_in}; dropped {ledger.dropped}. "
            + example(quarantine)
        )
    with workspace.writing(QUARANTINE_FILE, "later") as path:
        quarantine.write(path)
    workspace.report["ledger"] = ledger.to_json()
    workspace.report[REUSED] = f"{len(left) - len(missing)} of {len(shards)}"
    return numbers


def example(quarantine: Quarantine) -> str:
    """The first quarantined row in one sentence."""
    if not quarantine.rows:
        return "No row was quarantined: look at the ledger of the stage before."
    row = quarantine.rows[0]
    return f"The first: {row['file']}:{row['row']} {row['reason']}: {row['message']}"


@dataclass(frozen=True)
class ShardBuilder:
    """Builds one shard and marks it as done; picklable, for worker processes."""

    workspace: Workspace
    stage: str
    work: ShardWork
    memo: Memo | None

    def __call__(self, shard: Path) -> None:
        """Writes the shard's files, then its summary: ledger, quarantined rows, numbers."""
        ledger, quarantine = Ledger(), Quarantine(self.stage)
        numbers = self.work(shard, ledger, quarantine)
        ledger.check()
        summary = {"ledger": ledger.to_json(), "quarantine": quarantine.rows, "numbers": numbers}
        if self.memo:
            self.memo.keep(shard.stem, _files(self.workspace, shard.stem), summary)
        self.workspace.finish(shard.stem, summary)


def _files(workspace: Workspace, stem: str) -> list[str]:
    """The output files of one shard, relative to the workspace."""
    return [
        path.relative_to(workspace.path).as_posix()
        for path in workspace.path.glob(f"*/{stem}.*")
        if path.parent.name not in (UNITS, SCRATCH, LOGS)
    ]
