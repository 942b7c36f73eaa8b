"""What a person decided of single pairs changes them, and is counted."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.conversion import ConversionParams
from tasks.conversion.overrides import read_overrides
from tasks.errors import DataError, ParamsError

ROWS = [
    {"prompt": f"Question {i}?", "chosen": f"good {i}", "rejected": f"bad {i}"} for i in range(4)
] + [{"prompt": "Why?", "chosen": "So.", "rejected": "No.", "margin": 2}]


def by_prompt(pairs):
    return {pair["prompt"]: pair for pair in pairs}


def written(path, decisions):
    """The file as evaluation's suspects.csv is, with other columns beside the two."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["rank", "pair_id", "prompt", "action"])
        for rank, (pair_id, action) in enumerate(decisions, 1):
            writer.writerow([rank, pair_id, 'a "quoted",\ntext', action])
    return path


def test_flip_drop_and_tie_are_applied_and_counted(convert, pairs_of, tmp_path):
    before = by_prompt(pairs_of(convert(ROWS)))
    ids = {prompt: pair["pair_id"] for prompt, pair in before.items()}
    decisions = [
        (ids["Why?"], "flip"),
        (ids["Question 0?"], "drop"),
        (ids["Question 1?"], " Tie "),
        (ids["Question 2?"], ""),
        ("0" * 32, "drop"),
    ]
    path = written(tmp_path / "suspects.csv", decisions)
    artifact = convert(ROWS, shard_rows=2, overrides=path)
    after = by_prompt(pairs_of(artifact))
    assert set(after) == {"Why?", "Question 2?", "Question 3?"}
    assert (after["Why?"]["chosen"], after["Why?"]["rejected"]) == ("No.", "So.")
    assert after["Why?"]["margin"] is None
    assert after["Why?"]["group"] == before["Why?"]["group"]
    assert after["Question 2?"] == before["Question 2?"]
    account = artifact.report["ledger"]["votes"]
    assert account["dropped"] == {"overridden_drop": 1, "overridden_tie": 1}
    assert account["rows_in"] == 5 == account["rows_out"] + 2
    assert artifact.report["overrides"] == {
        "listed": 4,
        "applied": {"drop": 1, "flip": 1, "tie": 1},
        "unknown": 1,
        "first_unknown": ["0" * 32],
    }
    rows = [*ROWS[:1], ROWS[1] | {"margin": 2}, *ROWS[2:]]
    kept = by_prompt(pairs_of(convert(rows, overrides=path, ties="keep")))
    assert (kept["Question 1?"]["preference"], kept["Question 1?"]["margin"]) == (0.5, None)


@pytest.mark.parametrize(("second", "left"), [("drop", 0), ("tie", 0), ("flip", 1), ("", 1)])
def test_a_pair_that_was_flipped_is_decided_anew_by_its_new_id(
    convert, pairs_of, tmp_path, second, left
):
    (before,) = pairs_of(convert(ROWS[:1]))
    flip = (before["pair_id"], "flip")
    first = written(tmp_path / "one.csv", [flip])
    (flipped,) = pairs_of(convert(ROWS[:1], overrides=first))
    assert flipped["pair_id"] != before["pair_id"]
    both = written(tmp_path / "both.csv", [flip, (flipped["pair_id"], second)])
    rows = [*ROWS[:1], ROWS[1]]
    artifact = convert(rows, overrides=both)
    found = by_prompt(pairs_of(artifact))
    assert len(found) == 1 + left
    if left:
        assert found["Question 0?"]["chosen"] == flipped["chosen"]
    listed = 1 + bool(second)
    assert artifact.report["overrides"]["listed"] == listed
    assert artifact.report["overrides"]["unknown"] == (1 if second == "flip" else 0)
    alone = written(tmp_path / "alone.csv", [(flipped["pair_id"], "drop")])
    (warning,) = convert(rows, overrides=alone).report["warnings"]
    assert "only while its flip stands in this file, too" in warning


@pytest.mark.parametrize(("ties", "action", "left"), [
    ("drop", "drop", []),
    ("drop", "tie", []),
    ("keep", "tie", [("bad", "good", 0.5)]),
    ("drop", "flip", [("bad", "good", 1.0)]),
])  # fmt: skip
def test_a_pair_that_repeats_a_decided_one_but_for_white_space_goes_with_it(
    convert, pairs_of, tmp_path, ties, action, left
):
    row = {"prompt": "Why?", "chosen": "good", "rejected": "bad"}
    rows = [row, row | {"chosen": "good "}, *ROWS]
    (pair_id,) = [p["pair_id"] for p in pairs_of(convert(rows)) if p["chosen"] == "good"]
    path = written(tmp_path / "suspects.csv", [(pair_id, action)])
    artifact = convert(rows, shard_rows=1, overrides=path, ties=ties)
    found = [p for p in pairs_of(artifact) if {p["chosen"], p["rejected"]} & {"good", "good "}]
    assert [(p["chosen"], p["rejected"], p["preference"]) for p in found] == left
    assert artifact.report["ledger"]["votes"]["dropped"]["duplicate"] == 1
    assert artifact.report["overrides"]["applied"] == {action: 1}


def test_messages_are_overridden_as_texts_are(convert, pairs_of, tmp_path):
    def talk(role, text):
        return [{"role": role, "content": text}]

    rows = [
        {"prompt": talk("user", f"Hi {i}"), "chosen": talk("assistant", "a"),
         "rejected": talk("assistant", "b")}
        for i in range(2)
    ]  # fmt: skip
    (first, second) = pairs_of(convert(rows))
    path = written(tmp_path / "o.csv", [(second["pair_id"], "flip")])
    changed = pairs_of(convert(rows, overrides=path))
    assert changed[0] == first
    assert changed[1]["chosen"] == second["rejected"]
    # Flipped back by its new id, it is what it was.
    path = written(tmp_path / "p.csv", [(changed[1]["pair_id"], "drop")])
    assert len(pairs_of(convert(rows, overrides=path))) == 2


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "json", "jsonl"])
def test_overrides_are_read_from_every_format(tmp_path, kind):
    rows = [{"pair_id": "a", "action": "flip"}, {"pair_id": "b", "action": ""},
            {"pair_id": "c", "action": None if kind != "csv" else ""}]  # fmt: skip
    path = tmp_path / f"o.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "json":
        path.write_text(json.dumps(rows))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        mark = "," if kind == "csv" else "\t"
        lines = [f"{row['pair_id']}{mark}{row['action'] or ''}" for row in rows]
        path.write_text("\n".join([f"\ufeffpair_id{mark}action", *lines]), encoding="utf-8")
    assert read_overrides(path) == {"a": "flip"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("o.csv", "pair_id,action\na,flop\n", r"row 1: action 'flop' is unknown"),
        ("o.csv", "pair,action\na,flip\n", r"expected 'pair_id'"),
        ("o.csv", "pair_id,action\na,flip\na,drop\n", r"row 2: .* has action 'drop' here"),
        ("o.csv", "", r"o\.csv line 1: found the columns none, expected 'pair_id'"),
        ("o.tsv", "pair_id,action\n", r"columns 'pair_id,action', expected 'pair_id'"),
        ("o.csv", "pair_id,label\n", r"columns 'pair_id', 'label', expected 'action'"),
        (
            "o.csv",
            'pair_id,action\na,"flip\nb,drop\n',
            r"of data, in the row that begins in line 2",
        ),
        (
            "o.csv",
            'pair_id,action\n"a"b,flip\n',
            r"expected after .*line 2; expected quotes",
        ),
        ("o.csv", "pair_id,note,action\na,x,y,flip\n", r"line 2 has 4 cells, expected 3"),
        ("o.tsv", "pair_id\taction\na\n", r"line 2 has 1 cells, expected 2 as in the first"),
        ("o.csv", "pair_id;action\na;flip\n", r"'pair_id;action', .*; part the cells by commas"),
        (
            "o.csv",
            "pair_id,action,note\na,flip,x\nb,flip,caf\udce9\n",
            r"o\.csv line 3: byte 11 is not UTF-8 \(b'\\xe9'\); save the file as UTF-8",
        ),
        ("o.csv", "\udcff\udcfep\0", r"o\.csv line 1: byte 1 is not UTF-8"),
        ("o.json", "{", r"cannot be read"),
        ("o.json", '{"pair_id": "a"}', r"expected a list of objects"),
        ("o.json", '[{"pair_id": "a", "action": ""}, 7]', r"row 2: found 7, expected an object"),
        (
            "o.jsonl",
            '{"pair_id": "a", "action": ""}\n\n{"pair_id"\n',
            r"o\.jsonl line 3: found '{\"pair_id\"', which is no JSON .*; expected an object",
        ),
        ("o.jsonl", '{"pair_id": "caf\udce9"}\n', r"o\.jsonl line 1: byte 17 is not UTF-8"),
        ("o.txt", "", r"expected a file ending in"),
    ],
)
def test_bad_overrides_are_answered_clearly(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=message):
        read_overrides(path)


def test_a_cell_above_the_limit_of_the_process_is_answered_clearly(tmp_path):
    path = tmp_path / "o.csv"
    path.write_text("pair_id,action,note\na,drop," + "n" * 2000)
    before = csv.field_size_limit(1000)
    try:
        with pytest.raises(DataError, match=r"o\.csv: overrides cannot be read: field larger"):
            read_overrides(path)
    finally:
        csv.field_size_limit(before)


def test_a_file_in_which_nothing_is_decided_yet_overrides_nothing(tmp_path):
    (tmp_path / "o.csv").write_text("pair_id,action\n")
    assert read_overrides(tmp_path / "o.csv") == {}
    pq.write_table(pa.table({"pair_id": pa.array([], pa.string())}), tmp_path / "o.parquet")
    with pytest.raises(DataError, match=r"columns 'pair_id', expected 'action'"):
        read_overrides(tmp_path / "o.parquet")


def test_the_key_holds_the_bytes_of_the_overrides_and_not_their_place(convert, tmp_path):
    a, b = (written(tmp_path / name, [("x", "flip")]) for name in ("a.csv", "b.csv"))
    first, second = convert(ROWS, overrides=a), convert(ROWS, overrides=b)
    assert first.key == second.key
    assert second.cached
    written(b, [("x", "drop")])
    assert convert(ROWS, overrides=b).key != first.key
    with pytest.raises(ParamsError, match="is no file"):
        convert(ROWS, overrides=tmp_path / "missing.csv")
    assert ConversionParams().overrides is None
