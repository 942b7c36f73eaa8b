"""The two passes over the shards: rows become pairs, and pairs that are dropped are taken out.

In:  shards of rows, and between the passes the verdicts over all pairs.
Out: every shard's files (`shards`), and the summaries of the first pass.

A shard that an earlier artifact holds is taken from there: what pass 1 makes depends on the shard
and the params alone, what pass 2 makes on the verdicts on its pairs besides. So rows that are
appended cost their own share, and a shard is only written anew where they change a verdict in it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.artifact import (
    Memo,
    Quarantine,
    Workspace,
    digest_json,
    each,
    physical_cores,
    worthwhile,
)
from tasks.conversion import shards
from tasks.conversion.first_pass.rows import convert_shard
from tasks.conversion.plan import Plan
from tasks.conversion.second_pass import selection
from tasks.conversion.second_pass.duplicates import Array

MOST_QUARANTINED = 1000
"""Rows of a shard's quarantine up to which it is worth keeping for a later run."""


@dataclass(frozen=True)
class Passes:
    """What both passes share."""

    workspace: Workspace
    plan: Plan
    rows: Sequence[Path]
    digests: Mapping[str, str]
    """Of the shards that stand in an artifact: stem -> SHA-256."""
    workers: int | None

    def convert(self) -> list[dict[str, Any]]:
        """Pass 1: the summary of every shard, in order; finished ones are not redone."""
        memo = self._memo("rows", self.digests)
        left = [s for s in self.rows if self._finished("rows", s) is None]
        taken = self._taken(memo, left)
        left = [shard for shard in left if shard not in taken]
        done = len(self.rows) - len(left)
        work = _Convert(self.workspace, self.plan, memo)
        workers = self.workers or worthwhile(left)
        each(work, left, workers, "conversion: rows", done)
        return [taken.get(s) or self._finished("rows", s) or {} for s in self.rows]

    def select(self, codes: Array, counts: Sequence[int], preferences: Array | None = None) -> None:
        """Pass 2: writes the pairs that are kept; `codes` as the params apply them, of all pairs;
        `counts`: how many each shard has; `preferences` as in `Verdicts`.

        In threads: most of it waits for the disk, or copies, neither of which holds the
        interpreter.
        """
        work: list[tuple[Path, Array, Array | None]] = []
        start = 0
        for shard, count in zip(self.rows, counts, strict=True):
            mine = slice(start, start + count)
            own = None if preferences is None else preferences[mine]
            if own is not None and np.isnan(own).all():
                own = None
            work.append((shard, codes[mine], own))
            start += count
        digests = {
            shard.stem: digest_json([self.digests[shard.stem], *map(_digest, verdicts)])
            for shard, *verdicts in work
            if shard.stem in self.digests
        }
        memo = self._memo("pairs", digests)
        left = [item for item in work if self._finished("pairs", item[0]) is None]
        taken = memo.take_all([shard.stem for shard, *_ in left])
        for name, kept in taken.items():
            if kept is not None:
                self._quarantine(kept["quarantine"], f"{name}{shards.CONTRADICTIONS}")
        left = [item for item in left if taken[item[0].stem] is None]
        threads = min(self.workers or physical_cores(), len(left))
        if threads < 2:
            for item in left:
                self._select(memo, *item)
            return
        with ThreadPoolExecutor(threads) as pool:
            for waiting in [pool.submit(self._select, memo, *item) for item in left]:
                waiting.result()

    def keys(self, shard: Path) -> Path:
        """The records of a shard's pairs."""
        return self.workspace.path / shards.KEY_ARRAYS / f"{shard.stem}.npy"

    def _memo(self, part: str, digests: Mapping[str, str]) -> Memo:
        layouts = {name: layout for name, (layout, *_) in self.plan.layouts.items()}
        return Memo(self.workspace, digests, {"layouts": layouts, "part": part})

    def _finished(self, part: str, shard: Path) -> dict[str, Any] | None:
        return self.workspace.finished(f"{part}-{shard.stem}")

    def _taken(self, memo: Memo, left: Sequence[Path]) -> dict[Path, dict[str, Any]]:
        """Summaries of the shards of which an earlier artifact has the records: they are taken
        from there, with the quarantine."""
        kept_parts = memo.take_all([shard.stem for shard in left])
        summaries: dict[Path, dict[str, Any]] = {}
        for shard in left:
            if (kept := kept_parts[shard.stem]) is not None:
                self._quarantine(kept["quarantine"], shard.stem)
                summaries[shard] = kept["summary"]
        return summaries

    def _select(self, memo: Memo, shard: Path, codes: Array, preferences: Array | None) -> None:
        """Writes a shard's pairs."""
        name = shard.stem
        if self._finished("rows", shard) is None:
            convert_shard(self.workspace, shard, self.plan)  # only its records were taken
        kept = {"quarantine": selection.select(self.workspace, shard, codes, preferences)}
        if len(kept["quarantine"]) <= MOST_QUARANTINED:
            memo.keep(name, [f"{shards.PAIRS}/{name}.parquet"], kept)
        self.workspace.finish(f"pairs-{name}", {"of": len(codes)})

    def _quarantine(self, rows: list[dict[str, Any]], name: str) -> None:
        if not rows:
            return
        quarantine = Quarantine("conversion")
        quarantine.extend(rows)
        with self.workspace.writing(f"{shards.QUARANTINES}/{name}.parquet") as out:
            quarantine.write(out)


@dataclass(frozen=True)
class _Convert:
    """Converts one shard, and notes it for later runs; can be sent to a process."""

    workspace: Workspace
    plan: Plan
    memo: Memo

    def __call__(self, shard: Path) -> None:
        summary, quarantined = convert_shard(self.workspace, shard, self.plan)
        if len(quarantined) <= MOST_QUARANTINED:
            files = [f"{shards.KEY_ARRAYS}/{shard.stem}.npy"]
            self.memo.keep(shard.stem, files, {"summary": summary, "quarantine": quarantined})


def _digest(of_pairs: Array | None) -> str | None:
    if of_pairs is None:
        return None
    return hashlib.sha256(np.ascontiguousarray(of_pairs).tobytes()).hexdigest()
