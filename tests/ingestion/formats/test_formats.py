"""What a file is where its name does not say it: its source's `format`, or its server's word."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import DataError
from tests.ingestion.fuzz import zip_of
from tests.ingestion.places.servers import Files, serving

ROWS = [{"n": str(n)} for n in range(7)]
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
CSV = ("n\n" + "".join(f"{row['n']}\n" for row in ROWS)).encode()


def _parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": [row["n"] for row in ROWS]}), sink)
    return sink.getvalue()


def _arrow() -> bytes:
    sink = io.BytesIO()
    table = pa.table({"n": [row["n"] for row in ROWS]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


CONTENTS = {
    "jsonl": JSONL,
    "jsonl.gz": gzip.compress(JSONL),
    "json": json.dumps(ROWS).encode(),
    "csv": CSV,
    "tsv": CSV,
    "parquet": _parquet(),
    "arrow": _arrow(),
    "zip": zip_of({"a.jsonl": JSONL}),
}


@pytest.fixture
def files():
    return Files()


@pytest.fixture
def address(files):
    with serving(files.answer) as url:
        yield url


def numbers(ingestion, artifact):
    return [row["raw"] for row in ingestion.rows(artifact)] == ROWS


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_local_file_without_extension_is_read_as_it_is_declared(ingestion, kind):
    path = ingestion.write("download", CONTENTS[kind])
    assert numbers(ingestion, ingestion.run(path, format=kind))


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_url_without_extension_is_read_as_it_is_declared(ingestion, files, address, kind):
    files.content["/download"] = CONTENTS[kind]
    artifact = ingestion.run(f"{address}/download?id=7", format=kind)
    assert numbers(ingestion, artifact)
    assert {row["file"].partition("!")[0] for row in ingestion.rows(artifact)} == {
        f"{address}/download"
    }


SAID = [
    ({"Content-Disposition": 'attachment; filename="pairs.jsonl"'}, "jsonl"),
    ({"Content-Disposition": "attachment; filename*=UTF-8''p%C3%A4irs.jsonl.gz"}, "jsonl.gz"),
    ({"Content-Disposition": 'attachment; filename="../../pairs.parquet"'}, "parquet"),
    ({"Content-Disposition": "attachment", "Content-Type": "text/csv; charset=utf-8"}, "csv"),
    ({"Content-Type": "application/x-ndjson"}, "jsonl"),
    ({"Content-Type": "application/json"}, "json"),
    ({"Content-Type": "application/json"}, "jsonl"),
    ({"Content-Type": "application/vnd.apache.parquet"}, "parquet"),
    ({"Content-Type": "application/zip"}, "zip"),
]


@pytest.mark.parametrize(("headers", "kind"), SAID)
def test_what_the_server_says_of_a_file_is_taken(ingestion, files, address, headers, kind):
    files.content["/export.php"] = CONTENTS[kind]
    files.headers = headers
    assert numbers(ingestion, ingestion.run(f"{address}/export.php?id=7&sig=hush"))


def test_the_name_where_a_redirection_ends_is_taken(ingestion, files, address):
    files.content["/raw/a.csv"] = CSV
    assert numbers(ingestion, ingestion.run(f"{address}/to//raw/a.csv"))
    assert numbers(ingestion, ingestion.run(f"{address}/raw/a.csv", format="csv"))


def test_the_urls_own_extension_comes_before_what_the_server_says(ingestion, files, address):
    files.content["/a.jsonl"] = JSONL
    files.headers = {"Content-Type": "text/csv"}
    first = ingestion.run(f"{address}/a.jsonl?sig=1")
    assert numbers(ingestion, first)
    files.headers = {"Content-Type": "binary/octet-stream"}
    assert ingestion.run(f"{address}/a.jsonl?sig=2").key == first.key


def test_a_file_that_nothing_tells_is_refused_with_the_option_before_it_is_fetched(
    ingestion, files, address
):
    files.content["/download"] = JSONL
    files.headers = {"Content-Disposition": 'attachment; filename="x.dat"'}
    with pytest.raises(DataError, match=r"'download' has no known extension") as caught:
        ingestion.step({"name": "s", "path": f"{address}/download?id=7&sig=hush"})
    message = str(caught.value)
    assert "source 's'" in message
    assert "nor has 'x.dat', as its server calls it" in message
    assert "format: jsonl (json, csv, tsv, parquet, arrow; jsonl.gz where compressed)" in message
    assert "hush" not in message
    with pytest.raises(DataError, match=r"'download' has no known extension.*format: jsonl"):
        ingestion.run(ingestion.write("download", JSONL))


def test_a_directory_of_files_without_extension_is_read_where_it_is_declared(ingestion):
    for name in ("raw/part-0", "raw/deep/part-1", "raw/.hidden"):
        ingestion.write(name, JSONL)
    artifact = ingestion.run(ingestion.directory / "raw", format="jsonl")
    assert len(ingestion.rows(artifact)) == 14


def test_a_directory_that_the_datasets_library_saved_gives_its_rows_alone(ingestion):
    from datasets import Dataset, DatasetDict, load_from_disk

    rows = Dataset.from_list(ROWS)
    rows.save_to_disk(ingestion.directory / "ds")
    load_from_disk(str(ingestion.directory / "ds")).map(lambda _: {"n": "computed"})
    assert list((ingestion.directory / "ds").glob("cache-*.arrow"))
    artifact = ingestion.run(ingestion.directory / "ds")
    assert numbers(ingestion, artifact)
    assert artifact.report["warnings"] == []
    DatasetDict({"test": rows, "train": rows}).save_to_disk(ingestion.directory / "dd")
    assert len(ingestion.rows(ingestion.run(ingestion.directory / "dd"))) == 14
    ingestion.write("own/state.json", CONTENTS["json"])
    assert numbers(ingestion, ingestion.run(ingestion.directory / "own"))


def test_the_format_of_an_archive_by_name_is_that_of_its_members(ingestion):
    path = ingestion.write("x.zip", zip_of({"part-0": JSONL, "part-1": JSONL}))
    assert len(ingestion.rows(ingestion.run(path, format="jsonl"))) == 14
    assert len(ingestion.rows(ingestion.run(f"{path}!/part-1", format="jsonl"))) == 7
    with pytest.raises(DataError, match="none of its 2 members is a data file"):
        ingestion.run(path)


def test_a_declared_format_is_in_the_key_and_content_still_decides_on_compression(ingestion):
    path = ingestion.write("x.jsonl", JSONL)
    plain, declared = ingestion.run(path), ingestion.run(path, format="jsonl")
    assert plain.key != declared.key
    packed = ingestion.write("y", gzip.compress(JSONL))
    assert numbers(ingestion, ingestion.run(packed, format="jsonl"))
    with pytest.raises(DataError, match="not gzip"):
        ingestion.run(ingestion.write("z", JSONL), format="jsonl.gz")


@pytest.mark.parametrize("wrong", ["xlsx", "jsonl.lz4", "", "jsonl.gz.gz", ".jsonl"])
def test_a_format_that_is_none_is_refused_with_those_there_are(wrong):
    from tasks.ingestion import Source

    with pytest.raises(ValueError, match=r"(?s)format.*jsonl\|ndjson\|json\|csv"):
        Source(name="s", path="x", format=wrong)


def test_json_columns_of_datasets_are_the_values_that_they_are_there(ingestion):
    from datasets import Dataset, Features, Json, List, Value

    rows = [
        {
            "prompt": "a",
            "tools": [{"name": "f", "n": 2**60 + 1}],
            "turns": [{"role": "user", "calls": {}}],
        },
        {
            "prompt": "b",
            "tools": None,
            "turns": [{"role": "tool", "calls": ['"\u00e9\n', 0.1, None]}],
        },
        {"prompt": "c", "tools": {"x": []}, "turns": []},
    ]
    turns = List({"role": Value("string"), "calls": Json()})
    kinds = Features({"prompt": Value("string"), "tools": Json(), "turns": turns})
    given = Dataset.from_list(rows, features=kinds)
    given.to_parquet(ingestion.directory / "a.parquet")
    given.save_to_disk(ingestion.directory / "ds")
    for name in ("a.parquet", "ds"):
        artifact = ingestion.run(ingestion.directory / name)
        assert [row["raw"] for row in ingestion.rows(artifact)] == rows


def test_text_in_a_json_column_that_is_no_json_costs_its_row(ingestion):
    texts = ['{"a": 1}', '1,"prompt":"x"', '{"a":1,"a":2}', None, "", "NaN", '{"a": {"b": [1]}}']
    calls = pa.StructArray.from_arrays([pa.array(texts).cast(pa.json_())], ["calls"])
    column = pa.ListArray.from_arrays(pa.array(range(8), pa.int32()), calls)
    path = ingestion.directory / "a.parquet"
    pq.write_table(pa.table({"n": range(7), "turns": column}), path)
    artifact = ingestion.run(path)
    calls = [row["raw"]["turns"][0]["calls"] for row in ingestion.rows(artifact)]
    assert calls == [{"a": 1}, None, {"a": {"b": [1]}}]
    bad = [(row["row"], row["reason"]) for row in ingestion.quarantine(artifact)]
    assert bad == [(2, "bad_json"), (3, "duplicate_key"), (5, "bad_json"), (6, "bad_json")]
    one = pa.array(["1"]).cast(pa.json_())
    mapped = pa.MapArray.from_arrays([0, 1], ["k"], one)
    pq.write_table(pa.table({"m": mapped}), path)
    with pytest.raises(DataError, match=r"column 'm' is of type map<string, extension<arrow.json>"):
        ingestion.run(path)
