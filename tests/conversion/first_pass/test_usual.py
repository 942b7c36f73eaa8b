"""The short ways of usual rows come to the same results as the long ones."""

import json
import unicodedata
from collections import Counter
from typing import get_args

import numpy as np
import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.conversion.first_pass.joining import Origin
from tasks.conversion.first_pass.parts import parts_of
from tasks.conversion.first_pass.row_batches import in_this_order, pieces
from tasks.conversion.first_pass.stretches import stretches_of
from tasks.conversion.first_pass.tables import (
    SCHEMA,
    key_array,
    key_values,
    pair_values,
    record_batch,
)
from tasks.conversion.first_pass.usual import usual_rows
from tasks.conversion.first_pass.usual_pairs import UsualPairs
from tasks.conversion.layouts import reader
from tasks.conversion.options import Options, SplitBy
from tasks.conversion.plan import Plan
from tasks.conversion.preference.characters import (
    NONE,
    OTHER,
    QUIET,
    SETTLED,
    beyond_ascii,
    level_of,
    levels_of,
)
from tasks.conversion.preference.folding import folded_bytes
from tasks.conversion.preference.identity import identify, prompt_group
from tasks.conversion.preference.pair import Pair, checked
from tasks.conversion.preference.signals import end_to_end, script_of, signals
from tasks.conversion.unusable import Unusable
from tests.conversion.row_shapes import talk

WORDS = st.text(
    st.sampled_from("aB \t\n\x1c'\"\\\u2019\u2014\u00e9e\u0301\uff21\u4e2d\u3042\u0130\u00df\u00a0")
    | st.characters(codec="utf-8", exclude_characters="\0"),
    max_size=8,
)
CONTENTS = WORDS | st.tuples(WORDS, st.integers(8, 40)).map(lambda word: word[0] * word[1])
ROLES = st.sampled_from(["user", "assistant", "system", "tool"])
BESIDE = {"name": st.none() | WORDS, "tool_calls": st.none(), "x": st.none()}
"""Of messages in a table: null where another one says something."""
MESSAGE = st.fixed_dictionaries(
    {"role": ROLES, "content": CONTENTS}, optional=BESIDE
) | st.fixed_dictionaries({"role": ROLES, "content": CONTENTS})
ANSWER = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": WORDS}, optional={"name": st.none()}
)
ANSWERS = st.lists(ANSWER, min_size=1, max_size=1) | st.lists(MESSAGE, max_size=2)
TRL = parts_of("trl", False, Options(), reader("trl", {}))
ROW = st.tuples(st.lists(MESSAGE, max_size=3), ANSWERS, ANSWERS)


@settings(max_examples=400, deadline=None)
@given(st.lists(ROW, max_size=6), st.integers(1, 4), st.sampled_from(get_args(SplitBy)))
def test_usual_pairs_are_identified_as_by_all_checks(rows, piece, split_by):
    raws = [orjson.dumps(dict(zip(("prompt", "chosen", "rejected"), r, strict=True))) for r in rows]
    usual = UsualPairs(TRL, Plan({}, 0, 0.5, split_by), 0.5)
    for first in range(0, len(rows), piece):
        usual.take(raws[first : first + piece], first)
    assert sorted([*usual.others, *usual.places]) == [*range(len(rows))]
    if not usual.places:
        return
    origins = [Origin("s", "f", row, "") for row in usual.places]
    names = pa.schema([(name, SCHEMA.field(name).type) for name in ("source", "file", "row")])
    columns = [pa.array(c, f.type) for c, f in zip([*zip(*origins, strict=True)], names)]  # noqa: B905
    batch = pa.RecordBatch.from_arrays(columns, schema=names)
    pairs, records, hashes = usual.batch(batch, 3)
    values, keys, turns, noted = [], [], [], Counter()
    for place, origin in zip(usual.places, origins, strict=True):
        pair = checked(Pair(*rows[place]))
        noted.update(pair.notes)
        identity = identify(pair, 0, 0.5, split_by)
        assert prompt_group(pair) == identity.group
        assert identity.level <= SETTLED
        values.append(pair_values(pair, identity, origin))
        keys.append(key_values(pair, identity, 3))
        turns.append(identity.turns)
    assert noted <= Counter(usual.notes)  # of which others are of words (`signals`)
    assert pairs.equals(record_batch(values))
    known = key_array(keys)
    theirs, known["stretches"] = stretches_of(turns, known["eval"])
    assert (records == known).all()
    assert hashes.tolist() == theirs.tolist()


VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["role", "content", "user", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_row_of_other_kinds_of_values_is_never_usual(data):
    row = {side: data.draw(VALUE) for side in ("prompt", "chosen", "rejected")}
    good = [{"role": "user", "content": "Hi"}], talk("assistant", "a"), talk("assistant", "b")
    for side, value in zip(row, good, strict=True):
        if data.draw(st.booleans()):
            row[side] = value
    order = data.draw(st.permutations([*row]))
    raw = orjson.dumps({side: row[side] for side in order})
    usual, others = usual_rows([raw, b"[", b"1", b'"abc"', b"[1,2,3]"], TRL)
    assert others[-4:] == [1, 2, 3, 4]
    if usual:
        assert checked(*reader("trl", {})(row))


@given(st.lists(WORDS, min_size=1, max_size=6), st.text(st.sampled_from(" \t\n\x1caB\0\u2019")))
def test_folding_in_one_go_is_folding_one_by_one(words, blank):
    texts = [f"user \0 {word}{blank} \0".encode() for word in words]
    assert folded_bytes(b"\xff".join(texts)).split(b"\xff") == [folded_bytes(t) for t in texts]
    for text in texts:
        spaced = text.translate(bytes.maketrans(b"\t\n\v\f\r\x1c\x1d\x1e\x1f", b" " * 9)).lower()
        while b"  " in spaced:
            spaced = spaced.replace(b"  ", b" ")
        assert folded_bytes(text) == spaced.replace(b"\0 \0", b"\0  \0")


@given(st.lists(WORDS, max_size=6))
def test_levels_of_texts_looked_at_in_one_go_are_those_of_each(words):
    texts = [word.encode() for word in words]
    known = [level_of(beyond_ascii(text)) for text in texts]
    found = levels_of(*end_to_end(texts)).tolist()
    assert found == [NONE if level == QUIET else level for level in known]
    grouped = levels_of(*end_to_end([part for text in texts for part in (b"a", text)], each=2))
    assert grouped.tolist() == found


def test_notes_are_those_of_the_pair_that_holds_the_words():
    secrets = {
        "AKIA" + "A1" * 8: "an access key",
        "ghp_" + "a1B" * 12: "an access token",
        "sk-" + "a1_-" * 6: "an access token",
        "-----BEGIN RSA PRIVATE KEY-----": "a private key",
        ".".join(["eyJ" + "a" * 12, "eyJ" + "b" * 12, "c" * 12]): "a signed web token",
        "me@example.com": "an e-mail address",
    }
    no_sides = b"", b"[]", b"[]"
    near = ["AKIA", "ghp_a", "task-force", "PRIVATE KEY--", "eyJ", "@", "K_-J"]
    for place, (secret, name) in enumerate(secrets.items()):
        texts = [near[i % len(near)].encode() for i in range(21)]
        texts[3 * place + place % 3] = secret.encode()
        found = signals(*end_to_end(texts, each=3), np.zeros(7, np.int8), lambda _: no_sides)
        assert found == [(place, f"text that looks like {name}")]


def test_pieces_are_the_rows_of_a_part_of_a_batch():
    raws = ["", "a", "\u00e9\u4e2d", "b" * 300, None, "c"]
    batch = pa.RecordBatch.from_pydict({"raw": pa.array(["x", *raws], pa.string())}).slice(1)
    found = [(first, bytes(raw)) for first, piece in pieces(batch, 4) for raw in piece[:1]]
    assert found == [(0, b""), (4, b"")]
    every = [bytes(raw) for _, piece in pieces(batch, 4) for raw in piece]
    assert every == [(raw or "").encode() for raw in raws]


@given(st.integers(0, 90), st.integers(0, 90), st.integers(0, 120), st.randoms())
def test_rows_of_two_batches_come_in_any_order(one, other, moved, chance):
    """A few moves leave stretches as they are, many of them none."""
    both = pa.RecordBatch.from_pydict({"row": [f"row {n}" for n in range(one + other + 1)]})
    rows, more = both.slice(0, one), both.slice(one)
    order = [*range(both.num_rows)]
    for _ in range(moved):
        order.insert(chance.randrange(len(order)), order.pop(chance.randrange(len(order))))
    wanted = both.take(pa.array(order))
    assert in_this_order(rows, np.array(order), more).equals(wanted)
    assert in_this_order(both, np.array(order)).equals(wanted)


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


LONG = "word for word, as long as a prompt has to be to have any stretch of words " * 2


def test_rows_appended_leave_the_files_of_earlier_shards_as_they_are(ingest, tmp_path):

    from tasks.artifact import Store
    from tasks.conversion import ConversionParams, step
    from tasks.ingestion import Source

    def entry(i, chosen="a", rejected="b"):
        row = {"prompt": talk("user", f"Hi {i} " + LONG), "chosen": talk("assistant", chosen),
               "rejected": talk("assistant", rejected)}  # fmt: skip
        return ("votes", "v.jsonl", i + 1, json.dumps(row))

    def converted(name, shards, root):
        artifact = ingest(tmp_path / name, shards)
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
