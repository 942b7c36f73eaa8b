"""How these tests ingest: files in a temporary directory, through a real store."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.artifact import Artifact, Store
from tasks.ingestion import IngestionParams, iter_rows, step


class Ingestion:
    """Ingests sources into a store of its own and reads back what came out."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = Store(directory / "store")

    def write(self, name: str, content: bytes | str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def step(self, *sources: dict[str, Any], **params: Any):
        return step(IngestionParams.model_validate({"sources": list(sources), **params}))

    def run(self, path: Path | str, **source: Any) -> Artifact:
        """One source, called `s`."""
        return self.store.obtain(self.step({"name": "s", "path": str(path), **source}))

    @staticmethod
    def rows(artifact: Artifact) -> list[dict[str, Any]]:
        """Of all shards, with `raw` parsed."""
        rows = pa.Table.from_batches(iter_rows(artifact), schema=SCHEMA).to_pylist()
        return [row | {"raw": json.loads(row["raw"])} for row in rows]

    @staticmethod
    def quarantine(artifact: Artifact) -> list[dict[str, Any]]:
        return pq.read_table(artifact.path / "quarantine.parquet").to_pylist()


SCHEMA = pa.schema(
    {"source": pa.string(), "file": pa.string(), "row": pa.int64(), "raw": pa.string()}
)


@pytest.fixture
def ingestion(tmp_path) -> Ingestion:
    return Ingestion(tmp_path)
