"""Messages as JSON text in cells: decided per column, from the first rows, and never per cell."""

import json

import pytest

from tasks.conversion.layouts import recognise
from tasks.errors import DataError


def cell(*turns):
    return json.dumps([{"role": role, "content": text} for role, text in turns])


def row(n, **others):
    return {
        "prompt": f"Hi {n}",
        "chosen": cell(("user", f"Hi {n}"), ("assistant", "Hello.")),
        "rejected": cell(("user", f"Hi {n}"), ("assistant", "No.")),
        **others,
    }


def text(n, **others):
    return {"prompt": f"Give me JSON {n}", "chosen": "{}", "rejected": "no", **others}


A_LIST = cell(("assistant", "Hello."))


@pytest.mark.parametrize("layout", [None, "trl"])
def test_columns_of_messages_are_read_as_conversations(convert, pairs_of, layout):
    artifact = convert([row(1), row(2)], layout=layout)
    assert artifact.report["layouts"] == {"votes": "trl, JSON in chosen and rejected"}
    (first, _) = pairs_of(artifact)
    assert first["prompt"] == [{"role": "user", "content": "Hi 1"}]
    assert first["chosen"] == [{"role": "assistant", "content": "Hello."}]
    assert first["format"] == "conversational"


def test_a_prompt_of_messages_beside_answers_as_text_and_turns_under_from_and_value(
    convert, pairs_of
):
    prompt = json.dumps([{"from": "human", "value": "Hi"}])
    artifact = convert([{"prompt": prompt, "chosen": "Hello.", "rejected": "No."}])
    assert artifact.report["layouts"] == {"votes": "trl, JSON in prompt"}
    assert pairs_of(artifact)[0]["prompt"] == [{"role": "user", "content": "Hi"}]


def test_one_message_without_a_list_around_it_is_read_as_one(convert, pairs_of):
    asked, *answers = cell(("user", "Hi")), cell(("gpt", "Hello.")), cell(("gpt", "No."))
    chosen, rejected = (text.removeprefix("[").removesuffix("]") for text in answers)
    row = {"messages": asked, "chosen": chosen, "rejected": rejected}
    artifact = convert([row], columns={"prompt": "messages"})
    assert artifact.report["layouts"] == {
        "votes": "columns, JSON in prompt and chosen and rejected"
    }
    (pair,) = pairs_of(artifact)
    assert (pair["prompt"], pair["chosen"]) == (
        [{"role": "user", "content": "Hi"}],
        [{"role": "assistant", "content": "Hello."}],
    )
    printed = row | {"chosen": str(json.loads(chosen)), "rejected": str(json.loads(rejected))}
    with pytest.raises(DataError, match="cells of chosen and rejected hold messages as Python"):
        convert([printed], columns={"prompt": "messages"})


def test_a_mapping_is_looked_through(convert, pairs_of):
    rows = [{"q": "Hi", "good": row(1)["chosen"], "bad": row(1)["rejected"], "chosen": "x"}]
    rows[0]["q"] = "Hi 1"
    mapping = {"prompt": "q", "chosen": "good", "rejected": "bad"}
    artifact = convert(rows, columns=mapping)
    assert artifact.report["layouts"] == {"votes": "columns, JSON in chosen and rejected"}
    assert pairs_of(artifact)[0]["chosen"] == [{"role": "assistant", "content": "Hello."}]


def test_a_text_that_happens_to_be_messages_stays_a_text(convert, pairs_of):
    """One of the column's first texts is none, so that all of its cells are texts."""
    artifact = convert([text(1), text(2, chosen=A_LIST), text(3, rejected=A_LIST)])
    assert artifact.report["layouts"] == {"votes": "trl"}
    assert [pair["chosen"] for pair in pairs_of(artifact)] == ["{}", A_LIST, "{}"]
    assert {pair["format"] for pair in pairs_of(artifact)} == {"standard"}


def test_a_cell_that_is_no_json_in_a_column_of_messages_is_told_with_row_and_column(
    convert, pairs_of, quarantine_of
):
    rows = [row(n) for n in range(20)]  # as many as are looked at
    deep = "[" * 300 + "]" * 300
    bad = [
        (row(21, chosen="Hello."), "bad_json", "chosen"),
        (row(22, rejected='[{"role": "user"'), "bad_json", "rejected"),
        (row(23, rejected='["a"]'), "bad_json", "rejected"),
        (row(24, chosen="[]"), "bad_json", "chosen"),
        (row(24, chosen=f'[{{"role": "assistant", "tool_calls": {deep}}}]'), "bad_json", "chosen"),
        (row(25, chosen=" "), "null", "chosen"),
        (row(26, chosen=None), "null", "chosen"),
    ]
    artifact = convert([*rows, *(r for r, *_ in bad)])
    assert len(pairs_of(artifact)) == 20
    found = quarantine_of(artifact)
    for number, (entry, (_, reason, field)) in enumerate(zip(found, bad, strict=True), 21):
        assert (entry["file"], entry["row"]) == ("votes.jsonl", number)
        assert (entry["reason"], entry["field"]) == (reason, field)
        assert "expected" in entry["message"]
        assert "json_columns" in entry["message"] or reason == "null"


def test_which_columns_hold_messages_can_be_said(convert, pairs_of, quarantine_of):
    mixed = [row(1), row(2, chosen="Hello.", rejected="No.")]
    assert convert(mixed).report["layouts"] == {"votes": "trl"}
    said = convert(mixed, layout="trl", options={"json_columns": ["chosen", "rejected"]})
    assert [pair["format"] for pair in pairs_of(said)] == ["conversational"]
    assert [entry["reason"] for entry in quarantine_of(said)] == ["bad_json"]
    none = convert([row(1)], layout="trl", options={"json_columns": []})
    assert pairs_of(none)[0]["format"] == "standard"


def cut(n, *columns):
    """A row whose cells in these columns lack their end."""
    return row(n) | {name: row(n)[name][:-5] for name in columns}


@pytest.mark.parametrize("layout", [None, "trl"])
@pytest.mark.parametrize("columns", [("chosen", "rejected"), ("rejected",)])
def test_a_cut_cell_among_the_first_ones_is_told_and_its_column_not_read_as_texts(
    convert, layout, columns
):
    rows = [row(1), row(2), cut(3, *columns), *(row(n) for n in range(4, 40))]
    with pytest.raises(DataError) as caught:
        convert(rows, layout=layout)
    message = str(caught.value)
    assert f"source 'votes': 19 of the first 20 texts in column '{columns[0]}'" in message
    assert "in votes.jsonl row 3 found the text '[{" in message
    assert "which is no JSON (unexpected end of data" in message
    assert "layout: trl, options: {json_columns: [chosen, rejected]}" in message


def test_the_column_of_an_odd_cell_is_told_as_the_source_names_it(convert):
    rows = [{"q": "Hi", "good": row(n)["chosen"], "bad": row(n)["rejected"]} for n in range(3)]
    rows[1] = {"q": "Hi", "good": "Hello.", "bad": rows[1]["bad"]}
    del rows[0]["bad"]  # it lacks a column, but keeps its place
    rows.append(rows[2])
    mapping = {"prompt": "q", "chosen": "good", "rejected": "bad"}
    with pytest.raises(DataError, match=r"2 of .* 3 texts in column 'good' .* row 2 .*'Hello\.'"):
        convert(rows, columns=mapping)


def test_options_tell_what_the_cells_of_a_mixed_column_are(convert, pairs_of, quarantine_of):
    rows = [row(1), row(2), cut(3, "chosen")]
    said = convert(rows, layout="trl", options={"json_columns": ["chosen", "rejected"]})
    assert [pair["format"] for pair in pairs_of(said)] == ["conversational"] * 2
    assert [(e["row"], e["reason"]) for e in quarantine_of(said)] == [(3, "bad_json")]
    none = convert(rows, layout="trl", options={"json_columns": []})
    assert {pair["format"] for pair in pairs_of(none)} == {"standard"}


@pytest.mark.parametrize(
    ("messages", "others", "refused"), [(1, 1, False), (2, 2, True), (2, 3, False)]
)
def test_half_of_the_texts_and_two_at_least_are_most_of_a_column(
    convert, pairs_of, messages, others, refused
):
    rows = [text(n, chosen="Hello.") for n in range(others)]
    rows += [text(n, chosen=A_LIST) for n in range(others, others + messages)]
    if refused:
        with pytest.raises(DataError, match=r"votes\.jsonl row 1 found the text 'Hello\.'; "):
            convert(rows)
    else:
        assert {pair["format"] for pair in pairs_of(convert(rows))} == {"standard"}


def test_lists_and_their_json_text_in_one_column_are_read_alike(convert, pairs_of):
    plain = row(1) | {side: json.loads(row(1)[side]) for side in ("chosen", "rejected")}
    as_text, as_lists = (pairs_of(convert([r])) for r in (row(1), plain))
    assert as_text[0]["pair_id"] == as_lists[0]["pair_id"]
    both = convert([plain, row(2)])
    assert {pair["format"] for pair in pairs_of(both)} == {"conversational"}


def test_a_csv_file_gives_the_pairs_of_the_same_rows_in_jsonl(tmp_path, pairs_of):
    import csv

    from tasks.artifact import Store
    from tasks.conversion import ConversionParams, step
    from tasks.ingestion import IngestionParams, Source
    from tasks.ingestion import step as ingestion_step

    rows = [row(n) for n in range(4)]
    with (tmp_path / "cells.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    opened = [r | {s: json.loads(r[s]) for s in ("chosen", "rejected")} for r in rows]
    (tmp_path / "lists.jsonl").write_text("\n".join(map(json.dumps, opened)))
    ids = []
    for name in ("cells.csv", "lists.jsonl"):
        source = Source(name="votes", path=str(tmp_path / name))
        rows_in = Store(tmp_path / "d").obtain(ingestion_step(IngestionParams(sources=(source,))))
        made = step(ConversionParams(eval_fraction=0.0), (source,), rows_in)
        ids.append([p["pair_id"] for p in pairs_of(Store(tmp_path / "d").obtain(made))])
    assert ids[0] == ids[1]
    assert len(ids[0]) == 4


def test_what_python_prints_of_messages_is_refused_by_column():
    printed = [
        r | {"chosen": str(json.loads(r["chosen"])), "rejected": str(json.loads(r["rejected"]))}
        for r in (row(1), row(2))
    ]
    with pytest.raises(DataError, match=r"'votes': the cells of chosen and rejected .*json\.dumps"):
        recognise("votes", None, {}, printed)


def test_an_unpaired_row_of_a_csv_file_may_hold_its_messages_as_json(convert, pairs_of):
    rows = [
        {"messages": cell(("user", "Hi"), ("assistant", said)), "label": label}
        for said, label in (("Hello.", "True"), ("No.", "False"))
    ]
    (pair,) = pairs_of(convert(rows))
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("Hello.", "No.")
