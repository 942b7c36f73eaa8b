"""The examples in params on their real files, raw rows to token ids, with a small vocabulary."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flows.params import load
from flows.pipeline import Pipeline
from tasks.artifact import Artifact, Ledger
from tasks.conversion import pair_shards
from tasks.tokenization.shards import shards_in

PARAMS = Path(__file__).parents[2] / "params"
EXAMPLES = [PARAMS / "hh_rlhf.yaml", *sorted((PARAMS / "layouts").glob("*.yaml"))]
REAL = [path for path in EXAMPLES if "shared/data/" in path.read_text("utf-8")]
"""Those whose data are there; the others show a layout."""
STAGES = ("ingestion", "conversion", "templating", "tokenization")


def pipeline(
    path: Path, shared_data: Path, root: Path, limit: int | None, max_length: int = 20_000
) -> Pipeline:
    """The example's pipeline with its sources in `shared_data`, cut to `limit` rows each."""
    params = load(path, ["model.scratch.vocab_size=300", f"tokenization.max_length={max_length}"])
    sources = tuple(
        source.model_copy(
            update={
                "path": str(shared_data / source.path.split("shared/data/")[1]),
                "limit": limit,
            }
        )
        for source in params.ingestion.sources
    )
    ingestion = params.ingestion.model_copy(update={"sources": sources})
    return Pipeline(params.model_copy(update={"ingestion": ingestion}), root)


def run(pipe: Pipeline) -> dict[str, Artifact]:
    """The artifacts of all stages up to tokenization."""
    done: dict[str, Artifact] = {}
    for stage in ("ingestion", "model", *STAGES[1:]):
        done[stage] = pipe.store.obtain(pipe.step(stage, done))
    return done


def check_ledgers(done: dict[str, Artifact]) -> dict[str, Ledger]:
    """The ledgers, each balanced in itself and with the one before; a quarantine for each row."""
    ledgers = {name: Ledger.from_json(done[name].report["ledger"]) for name in STAGES}
    came = None
    for ledger in ledgers.values():
        ledger.check()
        assert came is None or ledger.rows_in == came
        came = ledger.rows_out
    rows = sum(len(table) for split in ("train", "eval") for table in tables(done, split))
    assert rows == came
    return ledgers


def tables(done: dict[str, Artifact], split: str) -> list[pa.Table]:
    """The token ids of a split, one table per shard."""
    paths = shards_in(done["tokenization"].path / split)
    return [pa.ipc.open_stream(pa.memory_map(str(path))).read_all() for path in paths]


def pairs(done: dict[str, Artifact]) -> list[dict]:
    """The canonical pairs, parsed."""
    rows = [r for path in pair_shards(done["conversion"]) for r in pq.read_table(path).to_pylist()]
    for row in rows:
        for side in ("prompt", "chosen", "rejected"):
            row[side] = None if row[side] is None else json.loads(row[side])
    return rows
