"""Real preference files, every container: each row comes out once, with its content and place."""

import csv
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = {
    "anthropic_persona/agreeableness.jsonl.gz": 1000,
    "azure_orca_dpo/validation.jsonl.gz": 284,
    "colossalai_one_row/test_kto_data.jsonl": 1,
    "hh_rlhf_harmless_test/test.jsonl.gz": 2312,
    "llamafactory_dpo_en/dpo_en_demo.json.gz": 300,
    "llmbar/LLMBar_Natural.json": 100,
    "pandalm_testset/testset-v1.json.gz": 999,
    "prmbench/target_data.jsonl.gz": 394,
    "relaid/arena_conversations_pandalm.parquet": 993,
    "relaid/scored_pairs_cje.csv.gz": 934,
    "relaid/trl_conversational_llamafactory_en.parquet": 300,
}


@pytest.mark.parametrize("name", ROWS)
def test_every_row_of_a_real_file_comes_out(ingestion, shared_data, name):
    artifact = ingestion.run(shared_data / name)
    expected = list(_rows_by_other_means(shared_data / name))
    assert len(expected) == ROWS[name]
    assert [row["raw"] for row in ingestion.rows(artifact)] == expected
    assert artifact.report["ledger"]["s"]["rows_in"] == ROWS[name]
    assert artifact.report["sources"]["s"]["bytes"] == (shared_data / name).stat().st_size


def test_jsonl_rows_are_kept_to_the_byte(ingestion, shared_data):
    path = shared_data / "hh_rlhf_harmless_test/test.jsonl.gz"
    artifact = ingestion.run(path)
    [shard] = (artifact.path / "rows").iterdir()
    table = pq.read_table(shard)
    assert table["raw"].to_pylist() == gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]
    assert table["row"].to_pylist() == list(range(1, 2313))
    assert set(table["file"].to_pylist()) == {str(path)}
    assert set(table["source"].to_pylist()) == {"s"}


def test_the_same_rows_give_the_same_rows_in_every_container(ingestion, hh_rows):
    """JSONL, a JSON array, CSV, Parquet, and Arrow of both kinds agree on content."""
    rows = hh_rows[:50]
    table = pa.Table.from_pylist(rows)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["chosen", "rejected"])
    writer.writeheader()
    writer.writerows(rows)
    arrow_file, arrow_stream = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_file(arrow_file, table.schema) as sink:
        sink.write_table(table)
    with pa.ipc.new_stream(arrow_stream, table.schema) as sink:
        sink.write_table(table)
    written = [
        ingestion.write("a.jsonl", "\n".join(map(json.dumps, rows))),
        ingestion.write("b.json", json.dumps(rows, indent=2)),
        ingestion.write("c.csv", text.getvalue()),
        ingestion.write("d.arrow", arrow_file.getvalue()),
        ingestion.write("e.arrow", arrow_stream.getvalue()),
        ingestion.write("g.arrow.gz", gzip.compress(arrow_stream.getvalue())),
        ingestion.directory / "f.parquet",
    ]
    pq.write_table(table, ingestion.directory / "f.parquet", row_group_size=7)
    for path in written:
        artifact = ingestion.run(path)
        assert [row["raw"] for row in ingestion.rows(artifact)] == rows, path.name


def _rows_by_other_means(path):
    """The rows as the standard library and pyarrow read them, whole and without care."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    if ".csv" in path.name:
        return csv.DictReader(io.StringIO(text, newline=""))
    if ".jsonl" in path.name:
        return [json.loads(line) for line in text.split("\n") if line]
    return json.loads(text)
