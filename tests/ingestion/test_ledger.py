"""Whatever bytes come in, every row is accounted for, and only errors of our own are raised."""

import gzip
import json
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.artifact import Workspace
from tasks.errors import DataError
from tasks.ingestion.files import match
from tasks.ingestion.params import Source
from tasks.ingestion.unit import QUARANTINE, ingest_file

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
        [file] = match(Source(name="s", path=str(path), **source))
        try:
            summary = ingest_file(workspace, "u", "s", file, source.get("limit"), lambda _: None)
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
        return summary, rows, pq.read_table(unit / QUARANTINE).to_pylist()


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
    assert [good.get(n, rows[n - 1]) for n in range(1, len(rows) + 1)] == rows
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


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NAMES), st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_under_any_name_raise_nothing_but_data_errors(name, content, packed):
    found = _ingested(name, gzip.compress(content) if packed else content)
    if found is not None:
        _check_balance(found)
