"""The short ways of usual rows come to the same results as the long ones."""

import json
import unicodedata

import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.conversion.characters import OTHER, SETTLED, beyond_ascii, level_of
from tasks.conversion.identity import identify, prompt_group
from tasks.conversion.joining import Origin
from tasks.conversion.layouts.trl import sides
from tasks.conversion.pair import Pair, checked
from tasks.conversion.signals import script_of
from tasks.conversion.tables import (
    SCHEMA,
    key_array,
    key_values,
    longer_by,
    pair_values,
    record_batch,
)
from tasks.conversion.unusable import Unusable
from tasks.conversion.usual import usual_rows
from tasks.conversion.usual_pairs import usual_pairs

WORDS = st.text(
    st.sampled_from("aB \t\n\x1c'\"\\\u2019\u2014\u00e9e\u0301\uff21\u4e2d\u3042\u0130\u00df\u00a0")
    | st.characters(codec="utf-8", exclude_characters="\0"),
    max_size=8,
)
ROLES = st.sampled_from(["user", "assistant", "system", "tool"])
MESSAGE = st.fixed_dictionaries({"role": ROLES, "content": WORDS})
ANSWER = st.fixed_dictionaries({"role": st.just("assistant"), "content": WORDS})
ANSWERS = st.lists(ANSWER, min_size=1, max_size=1) | st.lists(MESSAGE, max_size=2)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.lists(MESSAGE, max_size=3), ANSWERS, ANSWERS), max_size=4))
def test_usual_pairs_are_identified_as_by_all_checks(rows):
    raws = [orjson.dumps(dict(zip(("prompt", "chosen", "rejected"), r, strict=True))) for r in rows]
    usual, levels, others = usual_rows(raws, sides)
    assert sorted([*others, *(each.place for each in usual)]) == [*range(len(rows))]
    if not usual:
        return
    origins = [Origin("s", "f", row, "") for row in range(len(usual))]
    names = pa.schema([(name, SCHEMA.field(name).type) for name in ("source", "file", "row")])
    columns = [pa.array(c, f.type) for c, f in zip([*zip(*origins, strict=True)], names)]  # noqa: B905
    pairs, records = usual_pairs(
        usual, pa.RecordBatch.from_arrays(columns, schema=names), 3, 0, 0.5
    )
    values, keys = [], []
    for each, level, origin in zip(usual, levels, origins, strict=True):
        pair = checked(Pair(*rows[each.place]))
        assert not pair.notes
        identity = identify(pair, 0, 0.5)
        assert prompt_group(pair) == identity.group
        assert (identity.text, identity.level) == (each.text, level)
        assert longer_by(pair) == each.longer
        values.append(pair_values(pair, identity, origin))
        keys.append(key_values(pair, identity, 3, longer_by(pair)))
    assert pairs.equals(record_batch(values))
    assert (records == key_array(keys)).all()


@given(WORDS, WORDS, WORDS)
def test_the_group_of_a_settled_text_is_that_of_any_other(prompt, a, b):
    try:
        pair = checked(Pair(prompt, a, b))
    except Unusable:
        return
    assert identify(pair, 0, 0.5).group == prompt_group(pair)


@given(st.text())
def test_settled_text_is_changed_by_neither_composition_nor_case(text):
    raw = text.encode(errors="ignore")
    text = raw.decode()
    if level_of(beyond_ascii(raw)) <= SETTLED:
        assert unicodedata.normalize("NFKC", text) == text
        assert unicodedata.normalize("NFC", text) == text
        ascii_folded = raw.translate(bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                                                     b"abcdefghijklmnopqrstuvwxyz"))  # fmt: skip
        assert text.casefold().encode() == ascii_folded


def test_levels_of_known_characters():
    assert level_of("\u2019\u2014\U0001f600") < level_of("\u4e2d") == SETTLED == level_of("\u00e9")
    for changed in ("\u00c9", "\u0301", "\uff21", "\u202e", "\u00a0", "\u1161", "\u2126"):
        assert level_of(changed) == OTHER
    assert script_of("\u4e2d\u6587\u5b57 ok!") == "CJK"


def talk(role, text):
    return [{"role": role, "content": text}]


def test_rows_appended_leave_the_files_of_earlier_shards_as_they_are(ingest, tmp_path):
    import dataclasses
    import hashlib

    from tasks.artifact import Store
    from tasks.conversion import ConversionParams, step
    from tasks.ingestion import Source

    def entry(i, chosen="a", rejected="b"):
        row = {"prompt": talk("user", f"Hi {i}"), "chosen": talk("assistant", chosen),
               "rejected": talk("assistant", rejected)}  # fmt: skip
        return ("votes", "v.jsonl", i + 1, json.dumps(row))

    def converted(name, shards, root):
        artifact = ingest(tmp_path / name, shards)
        files = {
            f"rows/{p.name}": {"sha256": hashlib.sha256(p.read_bytes()).hexdigest()}
            for p in sorted((artifact.path / "rows").iterdir())
        }
        artifact = dataclasses.replace(artifact, record={"files": files})
        source = Source(name="votes", path="v.jsonl", layout="trl")
        params = ConversionParams(eval_fraction=0.0, max_bad_fraction=1.0)
        return Store(tmp_path / root).obtain(step(params, (source,), artifact))

    def node(artifact, name):
        return (artifact.path / "pairs" / name).stat().st_ino

    one, two = [entry(i) for i in range(5)], [entry(i) for i in range(5, 9)]
    two.append(("votes", "v.jsonl", 10, "[1]"))
    first = converted("one", [one, two], "data")
    # The new shard repeats a pair of its own, and contradicts one of the second shard.
    three = [entry(20), entry(20), entry(6, "b", "a")]
    second = converted("two", [one, two, three], "data")
    alone = converted("three", [one, two, three], "apart")
    assert second.digest == alone.digest
    assert second.report == alone.report
    assert node(second, "00000.parquet") == node(first, "00000.parquet")
    assert node(second, "00001.parquet") != node(first, "00001.parquet")
    again = converted("four", [one, two, three, [entry(30)]], "data")
    assert node(again, "00001.parquet") == node(second, "00001.parquet")
    assert again.report["contradictions"] == 2


def test_usual_rows_among_others_give_what_the_long_way_gives(convert, pairs_of):
    def row(i, better, **more):
        chosen, rejected = talk("assistant", better), talk("assistant", f"No. {i}")
        return {"prompt": talk("user", f"Hi {i}"), "chosen": chosen, "rejected": rejected} | more

    rows = []
    for i in range(0, 60, 6):
        rows += [
            row(i, "a \u4e2d\u6587"),  # answers in another script are noted
            row(i + 1, "b" * (i % 5) + " x@example.com ", margin=1.5),
            {"prompt": f"Hi  {i + 2}", "chosen": "c", "rejected": "d"},
            row(i + 3, "e\u0301"),
            row(i + 4, " "),
            row(i + 5, "\u202ef"),
        ]
    given = {"eval_fraction": 0.3, "shard_rows": 25, "layout": "trl"}
    short = convert(rows, **given)
    long = convert(rows, options={"prompt": "column"}, **given)
    assert (short.digest, short.report) == (long.digest, long.report)
    assert [pair["row"] for pair in pairs_of(short)] == [
        i for i in range(1, 61) if i % 6 != 5
    ]  # fmt: skip
    assert len(short.report["notes"]["votes"]) == 3
