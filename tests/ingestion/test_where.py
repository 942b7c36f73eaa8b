"""Which rows of a source are wanted: others are counted, and where none is left, it says why."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from tasks.artifact import Ledger
from tasks.errors import DataError
from tasks.ingestion import IngestionParams
from tasks.ingestion.where import refusal, unmet

ROWS = [
    {
        "n": n,
        "language": ("en", "de", "fr")[n % 3],
        "meta": {"score": n / 10, "tags": [{"name": "a" if n % 2 else "b"}]},
        **({"deleted": n % 5 == 0} if n % 4 else {}),
    }
    for n in range(60)
]
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS)


def kept(ingestion, artifact):
    return [row["raw"]["n"] for row in ingestion.rows(artifact)]


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ({"language": "en"}, lambda r: r["language"] == "en"),
        ({"language": ["en", "de"]}, lambda r: r["language"] != "fr"),
        ({"meta.score": {"min": 2, "max": 3.5}}, lambda r: 2 <= r["meta"]["score"] <= 3.5),
        ({"meta.score": {"max": 1}, "n": [3, 4, 70]}, lambda r: r["n"] in (3, 4)),
        ({"deleted": [None, False]}, lambda r: not r.get("deleted")),
        ({"deleted": None}, lambda r: "deleted" not in r),
        ({"deleted": True}, lambda r: r.get("deleted")),
        ({"meta.tags.0.name": "a"}, lambda r: r["n"] % 2),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else "rows",
)
def test_rows_that_meet_all_conditions_are_taken_and_the_others_counted(ingestion, where, wanted):
    path = ingestion.write("rows.jsonl", JSONL + "bad\n")
    artifact = ingestion.run(path, where=where)
    expected = [row["n"] for row in ROWS if wanted(row)]
    assert kept(ingestion, artifact) == expected
    account = artifact.report["ledger"]["s"]
    assert (account["rows_in"], account["rows_out"]) == (61, len(expected))
    assert account["dropped"] == {"bad_json": 1, "unwanted": 60 - len(expected)}


def test_cells_that_are_text_equal_the_numbers_and_truth_values_that_they_spell(ingestion):
    lines = ["n,score,safe,note", "1,4.0,TRUE,", "2,3.9,true,x", "3,4,false,", "4,high,true,"]
    path = ingestion.write("votes.csv", "\n".join(lines) + "\n")
    for where, expected in (
        ({"score": 4}, ["1", "3"]),
        ({"score": {"min": 3.95}}, ["1", "3"]),
        ({"safe": True}, ["1", "2", "4"]),
        ({"note": None}, ["1", "3", "4"]),
    ):
        assert kept(ingestion, ingestion.run(path, where=where)) == expected


def test_rows_that_are_not_wanted_are_no_bad_rows(ingestion):
    path = ingestion.write("rows.jsonl", JSONL)
    artifact = ingestion.run(path, where={"language": "en"})
    assert Ledger.from_json(artifact.report["ledger"]).accounts["s"].bad_share == 0


def test_whole_numbers_are_no_truth_values():
    for row, where, says in (
        ({"a": 1}, {"a": (True,)}, "a is 1, expected True"),
        ({"a": True}, {"a": 1}, "a is True, expected 1"),
    ):
        assert refusal(row, where, unmet(row, where)) == says
    assert unmet({"a": 1.0}, {"a": 1}) is None
    assert unmet({"a": "12_5"}, {"a": 125}) == "a"
    for long in (2**53 + 1, 1234567890123456789):  # as ids have them, and no float
        assert unmet({"a": long}, {"a": long}) is unmet({"a": f" {long}"}, {"a": long}) is None
        assert (
            unmet({"a": long}, {"a": long - 1}) == unmet({"a": str(long)}, {"a": long - 1}) == "a"
        )


def test_weight_and_cap_are_of_the_rows_that_are_wanted(ingestion):
    path = ingestion.write("rows.jsonl", JSONL)
    artifact = ingestion.run(path, where={"language": "en"}, cap=7)
    assert len(kept(ingestion, artifact)) == 7
    assert all(n % 3 == 0 for n in kept(ingestion, artifact))
    dropped = artifact.report["ledger"]["s"]["dropped"]
    assert dropped == {"capped": 13, "unwanted": 40}
    plain = ingestion.run(path, weight=0.5)
    both = ingestion.run(path, weight=0.5, where={"language": "en"})
    assert kept(ingestion, both) == [n for n in kept(ingestion, plain) if n % 3 == 0]


def test_other_conditions_are_another_artifact_and_none_is_as_before(ingestion):
    path = str(ingestion.write("rows.jsonl", JSONL))
    source = {"name": "s", "path": path}
    keys = [
        ingestion.step(source | more).key
        for more in ({}, {"where": {"n": 1}}, {"where": {"n": "1"}}, {"where": {"n": {"min": 1}}})
    ]
    assert len(set(keys)) == 4
    assert ingestion.step(source | {"where": {}}).key == keys[0]


def test_a_file_that_grew_is_filtered_whole(ingestion):
    path = ingestion.write("rows.jsonl", JSONL)
    assert len(kept(ingestion, ingestion.run(path, where={"language": "en"}))) == 20
    path.write_text(JSONL + JSONL)
    assert len(kept(ingestion, ingestion.run(path, where={"language": "en"}))) == 40


def test_parquet_rows_are_filtered_as_others(ingestion):
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{"deleted": None} | row for row in ROWS]), sink)
    path = ingestion.write("rows.parquet", sink.getvalue())
    artifact = ingestion.run(path, where={"meta.score": {"min": 5.5}, "deleted": [None, False]})
    assert kept(ingestion, artifact) == [56, 57, 58, 59]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (
            {"langauge": "en"},
            r"row 1: has no 'langauge' among n, language, meta; did you mean 'language'\?, "
            "expected 'en'",
        ),
        ({"language": ["sv", None]}, "row 1: language is 'en', expected 'sv' or null"),
        ({"meta.score": {"min": 9}}, "row 1: meta.score is 0.0, expected at least 9"),
    ],
    ids=str,
)
def test_a_source_of_which_nothing_is_left_says_why(ingestion, where, says):
    path = ingestion.write("rows.jsonl", JSONL)
    with pytest.raises(DataError, match=rf"none .* used. unwanted \(60\): \S+ {says}"):
        ingestion.run(path, where=where)


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"n": {"min": 2, "max": 1}}, "found min 2 above max 1"),
        ({"n": {}}, "give min, max or both"),
        ({"n": {"least": 1}}, "least"),
        ({"n": []}, "at least 1 item"),
        ({"n": [[1]]}, r"where.n.list.0\n.*expected text, a number, true, false or null"),
        ({"": 1}, "where"),
    ],
    ids=str,
)
def test_a_condition_that_says_nothing_is_refused(where, says):
    source = {"name": "s", "path": "x.jsonl", "where": where}
    with pytest.raises(ValidationError, match=says):
        IngestionParams.model_validate({"sources": [source]})
