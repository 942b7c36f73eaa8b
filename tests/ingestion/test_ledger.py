"""Whatever bytes come in, every row is accounted for, and only errors of our own are raised."""

import gzip
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.artifact import Memo, Store, Workspace
from tasks.artifact.ledger import QUARANTINE_FILE
from tasks.errors import DataError
from tasks.ingestion import IngestionParams, row_shards, step
from tasks.ingestion.params import Source
from tasks.ingestion.places.local_files import match_files
from tasks.ingestion.unit import ingest_file
from tests.ingestion import fuzz
from tests.ingestion.fuzz import zip_of

_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
_row = st.dictionaries(st.text(max_size=5), _value, max_size=4)
_line = _row.map(lambda row: json.dumps(row).encode()) | st.binary(max_size=20)
_kind = st.sampled_from(["drop", "double"])
_edit = st.tuples(st.integers(0, 10**6), _kind, st.binary(max_size=3))
_cells = st.lists(st.text(max_size=8), min_size=2, max_size=2)
NAMES = ["x.jsonl.gz", "x.parquet", "x.arrow", "x.json", "x.csv"]


def _mutated(content: bytes, edits: list[tuple[int, str, bytes]]) -> bytes:
    for place, kind, insert in edits:
        at = place % (len(content) + 1)
        rest = content[at:] if kind == "double" else content[at + 1 :]
        content = content[:at] + insert + (content[:at][-9:] if kind == "double" else b"") + rest
    return content


def _ingested(name: str, content: bytes, **source):
    """`(summary, shard rows, quarantined rows)` of one file, or None for a file that is refused."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_bytes(content)
        workspace = Workspace(Path(directory), 0)
        given = Source(name="s", path=str(path), **source)
        [file] = match_files(given)
        try:
            summary = ingest_file(
                workspace, "u", given, file, given.limit, lambda _: None, Memo(workspace, {})
            )
        except DataError as refused:
            error = str(refused)
        else:
            error = ""
        if error:
            assert name in error
            assert error.isprintable()
            return None
        unit = workspace.scratch / "u"
        rows = [r for p in sorted(unit.glob("0*")) for r in pq.read_table(p).to_pylist()]
        return summary, rows, pq.read_table(unit / QUARANTINE_FILE).to_pylist()


def _check_balance(found) -> None:
    summary, rows, quarantined = found
    account = summary["ledger"].get("s") or {"rows_in": 0, "rows_out": 0, "dropped": {}}
    blank = account["dropped"].get("blank_line", 0)
    assert account["rows_in"] == len(rows) + len(quarantined) + blank
    assert account["rows_out"] == len(rows)
    numbers = [row["row"] for row in rows] + [row["row"] for row in quarantined]
    assert len(set(numbers)) == len(numbers)
    for row in rows:
        assert isinstance(json.loads(row["raw"]), dict)


@settings(max_examples=150, deadline=None)
@given(st.lists(_line, max_size=12), st.lists(_edit, max_size=4))
def test_rows_in_are_rows_out_and_quarantined_for_any_lines(lines, edits):
    content = _mutated(b"\n".join(lines), edits)
    found = _ingested("x.jsonl", content)
    if found is None:
        return
    _check_balance(found)
    body = content.removeprefix(b"\xef\xbb\xbf")
    if b"\n" in body or b"\r" not in body:
        lines_in_file = body.count(b"\n") + (not body.endswith(b"\n") and body != b"")
        assert found[0]["ledger"].get("s", {"rows_in": 0})["rows_in"] == lines_in_file


@settings(max_examples=60, deadline=None)
@given(st.lists(_row, max_size=8), st.integers(0, 3), st.lists(_edit, max_size=3))
def test_an_array_of_any_rows_is_split_where_its_elements_end(rows, indent, edits):
    text = json.dumps(rows, indent=indent or None).encode()
    found = _ingested("x.json", text)
    assert found is not None
    good = {row["row"]: json.loads(row["raw"]) for row in found[1]}
    bad = {row["row"] for row in found[2]}
    named = json.loads(text, parse_constant=lambda name: {"number": name})
    assert [good.get(n, named[n - 1]) for n in range(1, len(rows) + 1)] == named
    assert set(good) | bad == set(range(1, len(rows) + 1))
    mutated = _ingested("x.json", _mutated(text, edits))
    if mutated is not None:
        _check_balance(mutated)


@settings(max_examples=60, deadline=None)
@given(st.lists(_cells, max_size=8), st.lists(_edit, max_size=3))
def test_any_csv_balances(rows, edits):
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    content = "\n".join(["a,b", *quoted]).encode()
    found = _ingested("x.csv", content)
    assert found is not None
    _check_balance(found)
    assert len(found[1]) + len(found[2]) == len(rows)
    mutated = _ingested("x.csv", _mutated(content, edits))
    if mutated is not None:
        _check_balance(mutated)


_shards = st.lists(
    st.tuples(
        st.sampled_from(["jsonl", "json", "csv", "parquet", "arrow", "zip"]), st.integers(0, 9)
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=30, deadline=None)
@given(_shards, st.randoms(use_true_random=False), st.none() | st.integers(1, 20), st.booleans())
def test_the_same_rows_come_out_of_any_containers_in_any_order(shards, chance, cap, halved):
    """Every row is out, quarantined or left out by the mixture, and which does not move."""
    with tempfile.TemporaryDirectory() as directory:
        outcomes = []
        for order in (shards, chance.sample(shards, len(shards))):
            raw = Path(directory) / str(len(outcomes))
            raw.mkdir()
            for number, (kind, count) in enumerate(order):
                start = 100 * shards.index((kind, count))
                rows = [{"n": str(n)} for n in range(start, start + count)]
                write_rows(raw / f"{number}.{kind}", rows)
            given = {"name": "s", "path": f"{raw}/*", "cap": cap, "weight": 0.5 if halved else 1.0}
            params = IngestionParams.model_validate({"sources": [given]})
            try:
                artifact = Store(Path(directory) / f"store{len(outcomes)}").obtain(step(params))
            except DataError as error:
                refused = str(error)
            else:
                refused = ""
            if refused:
                assert "empty_file" in refused or "can be used. capped" in refused
                outcomes.append(None)
                continue
            account = artifact.report["ledger"]["s"]
            tables = [pq.read_table(p).to_pylist() for p in row_shards(artifact)]
            found = sorted(json.loads(r["raw"])["n"] for rows in tables for r in rows)
            assert account["rows_in"] == sum(count for _, count in order)
            assert account["rows_out"] == len(found)
            assert account["rows_in"] - len(found) == sum(account["dropped"].values())
            outcomes.append(found)
    assert outcomes[0] == outcomes[1]


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    """The rows in the container that the extension names."""
    table = pa.table({"n": pa.array([row["n"] for row in rows], pa.string())})
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as sink:
            sink.write_table(table)
    elif path.suffix == ".zip":
        path.write_bytes(zip_of({"a.jsonl": lines.encode()}))
    else:
        csv = "n\n" + "".join(f"{row['n']}\n" for row in rows)
        path.write_text({".jsonl": lines, ".json": json.dumps(rows), ".csv": csv}[path.suffix])


@pytest.mark.parametrize("number", range(40))
def test_a_mutated_file_gives_rows_that_balance_or_an_error_of_ours(number):
    """A first part of what `python -m tests.ingestion.fuzz` goes on with."""
    fuzz.check(20261121, number)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NAMES), st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_under_any_name_raise_nothing_but_data_errors(name, content, packed):
    found = _ingested(name, gzip.compress(content) if packed else content)
    if found is not None:
        _check_balance(found)
