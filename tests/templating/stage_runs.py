"""Raw rows through conversion's functions and the two stages, to the ids that training reads."""

import datetime
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.artifact import Artifact, Store
from tasks.conversion.first_pass.rows import Origin
from tasks.conversion.first_pass.tables import SCHEMA, pair_values
from tasks.conversion.layouts import columns
from tasks.conversion.preference.identity import identify
from tasks.conversion.preference.pair import checked
from tasks.model import BaseModel
from tasks.templating import TemplatingParams
from tasks.templating import task as templating
from tasks.tokenization import TokenizationParams
from tasks.tokenization import task as tokenization
from tasks.tokenization.shards import shards_in

DAY = datetime.date(2026, 1, 2)


def converted(rows: list[dict], directory: Path) -> Artifact:
    """The canonical pairs of rows with trl's columns, all in the training split, in order."""
    values, notes = [], Counter()
    for number, row in enumerate(rows, 1):
        pair = checked(columns.pairs(row)[0])
        identity = identify(pair, 0, 0.0)
        notes.update(pair.notes)
        values.append(pair_values(pair, identity, Origin("s", "f.jsonl", number, "{}")))
    arrays = [pa.array(c, f.type) for c, f in zip(zip(*values, strict=True), SCHEMA, strict=True)]
    (directory / "pairs").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), directory / "pairs/00000.parquet")
    record = {"report": {"notes": {"s": dict(notes)}}}
    return Artifact("conversion", "0" * 16, directory, "d" * 64, record)


def run(
    rows: list[dict], model: BaseModel, tmp_path: Path, **params
) -> tuple[Artifact, list[dict]]:
    """The templating artifact, and the tokenized rows by their row number."""
    conversion = converted(rows, tmp_path / "conversion")
    held = Artifact("model", "1" * 16, model.path, "e" * 64, {})
    store = Store(tmp_path / "data")
    settings = TemplatingParams(**{"max_bad_fraction": 1.0} | params)
    rendered = store.obtain(templating.step(settings, conversion, model, held))
    tokenized = store.obtain(
        tokenization.step(TokenizationParams(max_length=None), rendered, model, held)
    )
    tables = [read_arrow(path) for path in shards_in(tokenized.path / "train")]
    return rendered, pa.concat_tables(tables).to_pylist()


def read_arrow(path: Path) -> pa.Table:
    """All rows of a shard of texts, or of ids."""
    return pa.ipc.open_stream(pa.memory_map(str(path))).read_all()


def quarantined(artifact: Artifact) -> dict[int, tuple[str, str]]:
    """Reason and message of every row that was left out."""
    rows = pq.read_table(artifact.path / "quarantine.parquet").to_pylist()
    return {row["row"]: (row["reason"], row["message"]) for row in rows}
