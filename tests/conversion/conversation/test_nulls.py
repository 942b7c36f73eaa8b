"""Keys that are null as another row has a value there: tables and lines give the same pairs."""

import json
from operator import itemgetter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.artifact import Store
from tasks.conversion import ConversionParams, step
from tasks.conversion.conversation.nulls import unfilled
from tasks.conversion.preference.fields import tools_of
from tasks.ingestion import IngestionParams, Source
from tasks.ingestion import step as ingestion_step

CITY = {"city": {"type": "string", "enum": ["Rome", "Oslo"], "default": "Rome"}}
DAYS = {"days": {"type": "integer", "description": "How many."}}
KEPT = "null among the arguments of a tool call kept"


def calling(call):
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def row(n, **others):
    """Every second one asks another thing of another tool."""
    asked, takes = ({"city": "Rome"}, CITY) if n % 2 else ({"days": 3}, DAYS)
    call = {"type": "function", "function": {"name": "f", "arguments": asked}}
    if n % 2:
        call["id"] = f"call{n}"
    parameters = {"type": "object", "properties": takes}
    return {
        "prompt": [{"role": "user", "content": f"Hi {n}"}],
        "chosen": [calling(call)],
        "rejected": [{"role": "assistant", "content": "No."}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}],
        "chat_template_kwargs": {"think": False} if n % 2 else {"effort": "high"},
        **others,
    }


def unpaired(n):
    """Two to a prompt, whose last turns call a tool."""
    whole = row(n // 2)
    return {
        "prompt": [*whole["prompt"], *whole["chosen"], {"role": "tool", "content": "3"}],
        "completion": [{"role": "assistant", "content": f"Number {n}."}],
        "label": bool(n % 2),
        "tools": whole["tools"],
        "chat_template_kwargs": whole["chat_template_kwargs"],
    }


@pytest.fixture
def pairs_from(tmp_path, pairs_of):
    """The pairs of a file by their ids, and what was noted."""

    def run(name):
        source = Source(name="votes", path=str(tmp_path / name))
        store = Store(tmp_path / "data")
        rows = store.obtain(ingestion_step(IngestionParams(sources=(source,))))
        made = store.obtain(step(ConversionParams(eval_fraction=0.0), (source,), rows))
        return sorted(pairs_of(made), key=itemgetter("pair_id")), made.report["notes"].get(
            "votes", {}
        )

    return run


@pytest.mark.parametrize("made", [row, unpaired])
def test_rows_with_tools_give_the_same_pairs_out_of_a_table_as_out_of_lines(
    tmp_path, pairs_from, made
):
    rows = [made(n) for n in range(8)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    (lines, noted), *tables = map(pairs_from, ("a.jsonl", "a.parquet", "a.arrow"))
    assert lines
    assert all("null" not in json.dumps([p["chosen"], p["prompt"], p["tools"]]) for p in lines)
    for pairs, notes in tables:
        assert [p["pair_id"] for p in pairs] == [p["pair_id"] for p in lines]
        for name in ("tools", "chat_template_kwargs"):
            assert [p[name] for p in pairs] == [p[name] for p in lines]
        assert notes == noted == {}


def test_a_null_among_the_arguments_of_a_line_is_kept_and_counted(convert, pairs_of):
    asked = [
        {"city": None},
        {"where": {"city": None}},
        '{"city": null}',
        {"city": [None]},
        None,
        "",
    ]
    rows = [
        row(n, chosen=[calling({"id": None, "function": {"name": "f", "arguments": arguments}})])
        for n, arguments in enumerate(asked)
    ]
    artifact = convert(rows)
    calls = [pair["chosen"][0]["tool_calls"] for pair in pairs_of(artifact)]
    assert calls == [[{"function": {"name": "f", "arguments": each}}] for each in asked]
    assert artifact.report["notes"]["votes"] == {KEPT: 2}


def test_nulls_of_a_schema_are_dropped_but_not_those_that_it_states():
    stated = {"default": None, "const": None, "enum": ["a", None], "examples": [{"b": None}]}
    schema = {
        "type": "object",
        "required": None,
        "properties": {
            "days": {"type": "integer", "enum": None, "description": None, "items": None},
            "city": None,
            "kind": stated,
            "default": {"title": None, "default": {"a": None}},
            "const": None,
        },
        "anyOf": [{"type": "null", "title": None}, None],
    }
    tool = {"type": "function", "strict": None, "function": {"name": "f", "parameters": schema}}
    expected = {
        "type": "object",
        "properties": {
            "days": {"type": "integer"},
            "kind": stated,
            "default": {"default": {"a": None}},
        },
        "anyOf": [{"type": "null"}, None],
    }
    assert tools_of([{"function": None, "name": "f"}]) == '[{"name":"f"}]'
    for tools in ([tool], json.dumps([tool])):
        (made,) = json.loads(tools_of(tools) or "")
        assert made == {"type": "function", "function": {"name": "f", "parameters": expected}}


@pytest.mark.parametrize(
    ("file", "kept"),
    [("a.parquet", False), ("x.zip/B.PARQUET", False), ("a.feather", False), ("a.jsonl", True)],
)
def test_what_is_a_table_is_told_by_the_name_of_the_file(file, kept):
    call = {"function": {"name": "f", "arguments": {"days": 3, "city": None, "list": [None]}}}
    given = {"chosen": [calling(call)], "id": None}
    found = unfilled(given, json.dumps(given), file)
    assert found["id"] is None
    arguments = found["chosen"][0]["tool_calls"][0]["function"]["arguments"]
    assert arguments == {"days": 3, "list": [None]} | ({"city": None} if kept else {})
