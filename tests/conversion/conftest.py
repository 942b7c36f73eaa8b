"""Rows shards written by hand, and the stage run on them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.artifact import Artifact, Store
from tasks.artifact.durable import statuses_below
from tasks.artifact.record import payload_digests
from tasks.conversion import ConversionParams, pair_shards, step
from tasks.ingestion import Source

LENIENT = {"eval_fraction": 0.0, "max_bad_fraction": 1.0}


def ingested(directory: Path, shards: list[list[tuple]]) -> Artifact:
    """An ingestion artifact of shards of (source, file, row, raw)."""
    rows = directory / "rows"
    rows.mkdir(parents=True)
    schema = pa.schema(
        [("source", pa.string()), ("file", pa.string()), ("row", pa.int64()), ("raw", pa.string())]
    )
    for number, shard in enumerate(shards):
        columns = list(zip(*shard, strict=True)) or [()] * 4
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), rows / f"{number:05d}.parquet")
    digest = hashlib.sha256(json.dumps(shards).encode()).hexdigest()
    record = {
        "files": payload_digests(directory, statuses_below(directory)),
        "report": {"ledger": {}},
    }
    return Artifact("ingestion", digest[:16], directory, digest, record)


@pytest.fixture(scope="session")
def ingest() -> Callable[..., Artifact]:
    return ingested


@pytest.fixture(scope="session")
def pairs_of() -> Callable[[Artifact], list[dict]]:
    return _pairs


@pytest.fixture(scope="session")
def quarantine_of() -> Callable[[Artifact], list[dict]]:
    return _quarantine


def _pairs(artifact: Artifact) -> list[dict]:
    """All pairs of a conversion, prompt and answers parsed."""
    rows = [row for path in pair_shards(artifact) for row in pq.read_table(path).to_pylist()]
    for row in rows:
        for side in ("prompt", "chosen", "rejected"):
            row[side] = None if row[side] is None else json.loads(row[side])
    return rows


def _quarantine(artifact: Artifact) -> list[dict]:
    return pq.read_table(artifact.path / "quarantine.parquet").to_pylist()


@pytest.fixture
def convert(tmp_path) -> Callable[..., Artifact]:
    """Runs the stage on rows (dicts, or raw text) of one source."""

    def run(
        rows, *, shard_rows=1000, name="votes", layout=None, columns=None, options=None, **params
    ):
        raws = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in rows]
        entries = [(name, "votes.jsonl", i, raw) for i, raw in enumerate(raws, 1)]
        shards = [entries[i : i + shard_rows] for i in range(0, len(entries), shard_rows)]
        source = Source(
            name=name, path="votes.jsonl", layout=layout, columns=columns, options=options
        )
        directory = tmp_path / f"ingestion-{len(list(tmp_path.iterdir()))}"
        made = step(ConversionParams(**(LENIENT | params)), (source,), ingested(directory, shards))
        return Store(tmp_path / "data").obtain(made)

    return run
