"""Which rows of a source are kept: `where`, `weight` and `cap` decide by each row's content.

`where` keeps the rows that meet its conditions. Of these, `weight` and `cap` keep a part. A row's
place in [0, 2**64) is a hash of the source's name and the row's bytes. `weight` keeps the places
below that share of the range; `cap` keeps the lowest places. So added rows change little: with
`weight` no other row, with `cap` each removes at most the highest one. Equal rows share a place.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.artifact import Ledger, Workspace
from tasks.ingestion.formats.batches import Batch
from tasks.ingestion.params import Source
from tasks.ingestion.where import refusal, unmet

UNWANTED, CAPPED = "unwanted", "capped"
RANGE = 2**64


def place(source: str, raw: bytes) -> int:
    """A row's place in [0, 2**64)."""
    digest = hashlib.blake2b(raw, digest_size=8, key=source.encode()[:64]).digest()
    return int.from_bytes(digest, "big")


@dataclass
class Sample:
    """Selects the rows of one file by `where` and `weight`, and collects their places for `cap`."""

    source: Source
    left_out: Counter[str] = field(default_factory=Counter[str])
    """Number of rows, by reason."""
    first_unwanted: str | None = None
    """The first row that does not meet `where`, and why."""
    places: list[int] = field(default_factory=list[int])

    def select(self, batch: Batch) -> tuple[list[int], list[bytes]]:
        """Row numbers and bytes of the rows that are kept."""
        if self.source.where:
            return self._share(*self._wanted(batch))
        return self._share(batch.rows, batch.raws)

    def _wanted(self, batch: Batch) -> tuple[list[int], list[bytes]]:
        import orjson

        where = self.source.where
        kept: list[int] = []
        for i, raw in enumerate(batch.raws):
            row = orjson.loads(raw)
            path = unmet(row, where)
            if path is None:
                kept.append(i)
            elif self.first_unwanted is None:
                self.first_unwanted = f"row {batch.rows[i]}: {refusal(row, where, path)}"
        self.left_out[UNWANTED] += len(batch.raws) - len(kept)
        return [batch.rows[i] for i in kept], [batch.raws[i] for i in kept]

    def _share(self, rows: list[int], raws: list[bytes]) -> tuple[list[int], list[bytes]]:
        if self.source.weight >= 1.0 and self.source.cap is None:
            return rows, raws
        places = [place(self.source.name, raw) for raw in raws]
        bound = self.source.weight * RANGE
        kept = [i for i, found in enumerate(places) if found < bound]
        self.left_out[CAPPED] += len(places) - len(kept)
        if self.source.cap is not None:
            self.places += [places[i] for i in kept]
            if len(self.places) > 2 * self.source.cap:
                self.places = lowest(self.places, self.source.cap)
        return [rows[i] for i in kept], [raws[i] for i in kept]


def lowest(places: Sequence[int], cap: int) -> list[int]:
    """The `cap` lowest places, sorted."""
    return sorted(places)[:cap]


def leave_out(ledger: Ledger, source: str, counts: Mapping[str, int]) -> None:
    """Moves rows of the source's account from those kept to those dropped, by reason."""
    for reason, count in counts.items():
        if count:
            ledger.count_out(source, -count)
            ledger.drop(source, reason, count)


def apply_caps(
    workspace: Workspace, source: Source, units: Sequence[str], summaries: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The units' summaries after the source's `cap`; the remaining rows are written as new shards
    below `<unit>+capped`, a name that no unit has."""
    if source.cap is None:
        return list(summaries)
    chosen = lowest([p for summary in summaries for p in summary["places"]], source.cap)
    highest = chosen[-1] if chosen else 0
    equal = Counter(chosen)[highest]  # so many rows of the last place are kept, the first ones
    capped: list[dict[str, Any]] = []
    for unit, summary in zip(units, summaries, strict=True):
        done = workspace.finished(f"{unit}+capped")
        if done is None:
            done = _capped(workspace, source, unit, summary, highest, equal)
            workspace.finish(f"{unit}+capped", done)
        equal -= done["equal"]
        ledger = Ledger.from_json(summary["ledger"])
        leave_out(ledger, source.name, {CAPPED: done["left_out"]})
        changed = {"ledger": ledger.to_json(), "shards": done["shards"], "unit": f"{unit}+capped"}
        capped.append(summary | changed)
    return capped


def _capped(
    workspace: Workspace,
    source: Source,
    unit: str,
    summary: dict[str, Any],
    highest: int,
    equal: int,
) -> dict[str, Any]:
    """Writes the rows of a unit below the place `highest`, and the first `equal` ones at it."""
    from tasks.ingestion.shard_writer import ShardWriter
    from tasks.ingestion.shards import shard_rows

    name = f"{workspace.scratch.name}/{unit}+capped"
    left_out = kept_equal = 0
    with ShardWriter(workspace.writing, name, source.name, summary["file"]) as shards:
        for index in range(summary["shards"]):
            for row, raw in shard_rows(workspace.scratch / unit / f"{index:05d}.parquet"):
                row_place = place(source.name, raw)
                if row_place > highest or (row_place == highest and kept_equal == equal):
                    left_out += 1
                    continue
                kept_equal += row_place == highest
                shards.extend([row], [raw])
    return {"shards": shards.shards, "left_out": left_out, "equal": kept_equal}
