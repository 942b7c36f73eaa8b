"""Rows by columns and rows one by one: whatever stands where, the same artifact comes of both."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.artifact import Store
from tasks.conversion import ConversionParams, lanes, step
from tasks.conversion.lanes import Lanes
from tasks.conversion.layouts import LAYOUTS
from tasks.conversion.layouts.trl import TrlOptions
from tasks.conversion.options import CellOptions, Options
from tasks.conversion.pair import TIE, Pair
from tasks.conversion.plan import Plan
from tasks.conversion.row_batches import ROW_COLUMNS
from tasks.conversion.shard_pairs import ShardPairs
from tasks.conversion.usual_pairs import PIECE_ROWS
from tasks.ingestion import Source
from tests.conversion.test_any_row import NESTED, ROW

ROWS = 2 * PIECE_ROWS + 88
WORDS = [
    "Why",
    "is",
    "the",
    "sea",
    "blue?",
    "\u201cYes\u201d",
    "It\u2019s",
    "\n\n",
    "ok",
    "A",
    "\t",
]


def talk(role, text):
    return [{"role": role, "content": text}]


def usual(i):
    draw = random.Random(i)
    question = " ".join(draw.choice(WORDS) for _ in range(draw.randrange(1, 90)))
    return {
        "prompt": [*talk("system", "Be kind."), *talk("user", f"{question} {i % 97}")],
        "chosen": talk("assistant", f"Because {i % 97}."),
        "rejected": talk("assistant", f"No {i % 89}."),
    }


def odd(i):
    """Rows that are not usual, each in its own way; the fourth makes no pair."""
    row = usual(i)
    return [
        row | {"prompt": talk("user", f"caf\u00e9 e\u0301 {i}")},
        row | {"tools": "[]", "margin": 1.5},
        row | {"chosen": talk("assistant", f" {i} me@example.com \n")},
        row | {"rejected": row["chosen"]},
        {side: list(reversed(row[side])) for side in row} | {"prompt": talk("user", "\u4e2d" * 70)},
        row | {"prompt": [{"content": f"Hi {i}", "role": "user"}]},
        row | {"prompt": talk("user", f"\u00a0Hi {i}"), "chosen": talk("assistant", "\u202ef")},
    ][i % 7]


@pytest.fixture
def both_ways(ingest, tmp_path, monkeypatch):
    """The artifacts of shards of (source, row) pairs; short cut, and all rows one by one."""

    def run(shards, **params):
        entries = [
            [(s, "f.jsonl", n, json.dumps(row, ensure_ascii=n % 2 == 0))
             for n, (s, row) in enumerate(shard, 1)]
            for shard in shards
        ]  # fmt: skip
        rows = ingest(tmp_path / f"rows{len([*tmp_path.iterdir()])}", entries)
        params = {"eval_fraction": 0.3, "max_bad_fraction": 1.0, "duplicates": "keep"} | params
        names = sorted({s for shard in shards for s, _ in shard})
        sources = [Source(name=s, path="f", layout="trl") for s in names]
        made = []
        for way in ("short", "long"):
            with monkeypatch.context() as patched:
                if way == "long":
                    patched.setattr(lanes, "parts_of", lambda *_: None)
                done = step(ConversionParams(**params), sources, rows)
                made.append(Store(tmp_path / way).obtain(done))
        return made

    return run


@pytest.mark.parametrize(
    "places",
    [
        [],
        [0],
        [PIECE_ROWS - 1],
        [PIECE_ROWS],
        [ROWS - 1],
        [0, 1, PIECE_ROWS - 1, PIECE_ROWS, 2 * PIECE_ROWS - 1, ROWS - 1],
        [*range(40, 60)],
        [*range(0, ROWS, 3)],
        [*range(1, ROWS)],
        [*range(ROWS)],
    ],
    ids=lambda places: f"{len(places)} odd, first {places[:1]}",
)
def test_odd_rows_at_any_place_of_a_piece_change_nothing(both_ways, pairs_of, places):
    rows = [odd(i) if i in {*places} else usual(i) for i in range(ROWS)]
    short, long = both_ways([[("a", row) for row in rows]])
    assert (short.digest, short.report) == (long.digest, long.report)
    origins = [pair["row"] for pair in pairs_of(short)]
    assert origins == sorted(origins)
    assert len(origins) == ROWS - sum(i % 7 == 3 for i in places)


@pytest.mark.parametrize("seed", range(4))
def test_sources_that_take_turns_in_a_shard_change_nothing(both_ways, seed):
    draw = random.Random(seed)
    shards = [
        [
            (source, odd(i) if draw.random() < 0.1 else usual(i))
            for source in draw.choices("abc", k=8)
            for i in range(draw.choice([1, 2, 50, PIECE_ROWS + 3]))
        ]
        for _ in range(2)
    ]
    for params in ({}, {"duplicates": "drop", "contradictions": "keep"}, {"seed": 5}):
        short, long = both_ways(shards, **params)
        assert (short.digest, short.report) == (long.digest, long.report)
    assert len(short.report["ledger"]) > 1


def test_pairs_of_which_a_person_decided_change_nothing(both_ways, pairs_of, tmp_path):
    rows = [("a", usual(i)) for i in range(ROWS)]
    ids = [pair["pair_id"] for pair in pairs_of(both_ways([rows])[0])]
    actions = ["flip", "drop", "tie", "flip"]
    decided = {
        ids[i]: action for i, action in zip((0, 7, PIECE_ROWS, ROWS - 1), actions, strict=True)
    }
    file = tmp_path / "overrides.csv"
    lines = ["pair_id,action", *(f"{name},{action}" for name, action in decided.items())]
    file.write_text("\n".join(lines) + "\n")
    short, long = both_ways([rows], overrides=file)
    assert (short.digest, short.report) == (long.digest, long.report)
    assert short.report["overrides"]["applied"] == {"drop": 1, "flip": 2, "tie": 1}
    left = {pair["pair_id"] for pair in pairs_of(short)}
    assert len(left) == ROWS - 2
    assert not left & set(decided)


TEXTS = [
    *(
        "a",
        "b",
        " b",
        "It\u2019s so. ",
        "two words",
        "two words more",
        "a\n\nAssistant: b",
        "\u202ex",
    ),
    *("caf\u00e9", "e\u0301", "\u4e2d\u6587", "\u00c9t\u00e9", "me@example.com", 'say "no" \\ \t'),
    *("", " "),
]
ORDERS = [
    *[["user"], ["system", "user", "assistant", "user"]] * 4,
    *([], ["assistant"], ["human", "gpt", "human"], ["user", "tool"], ["user", "assistant"]),
]
MORE = [
    *[{}] * 4,
    *({"score": 1}, {"margin": 1.5}, {"margin": None, "tools": None, "images": None}),
    *({"margin": -1}, {"tools": "[]"}, {"chat_template_kwargs": {"a": 1}}, {"images": []}),
    *({"system": "Be kind."}, {"margin": "2", "score": 3.5}),
]


def shaped(draw, layout):
    """A row in one of the shapes that rows of these layouts have, most often a sound one."""
    roles, texts = draw.choice(ORDERS), draw.choices(TEXTS[: draw.choice([8, 14, 16])], k=6)
    asked = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    a, b = texts[4:]
    better, worse = talk("assistant", a), talk("assistant", b)
    if draw.random() < 0.1:
        worse = [*worse, *draw.choice([asked, better])]
    text = draw.choice([" ".join(texts[: len(asked)]), texts[0]])
    said = {"user": "Human", "assistant": "Assistant", "system": "Human"}
    begun = "".join(f"\n\n{said.get(m['role'], 'x')}: {m['content']}" for m in asked)
    shapes = [
        {"prompt": asked, "chosen": better, "rejected": worse},
        {"chosen": asked + better, "rejected": asked + worse},
        {"prompt": asked, "chosen": asked + better, "rejected": asked + worse},
        {"prompt": text, "chosen": asked + better, "rejected": asked + worse},
        {"prompt": text, "chosen": better, "rejected": worse},
        {"prompt": asked, "chosen": a, "rejected": b},
        {"prompt": text, "chosen": a, "rejected": b},
        {"prompt": text, "chosen": text + a, "rejected": f"{text} {b}"},
        {"chosen": f"{text} {a}", "rejected": f"{text} {b}"},
        {"prompt": draw.choice([None, {}, 1]), "chosen": asked + better, "rejected": asked + worse},
        {"prompt": asked, "chosen": better, "rejected": b},
        {"prompt": asked, "chosen": a, "rejected": worse},
    ]
    if layout == "hh_rlhf":
        shapes = [
            {"chosen": f"{begun}\n\nAssistant: {a}", "rejected": f"{begun}\n\nAssistant: {b}"}
        ]
    elif layout == "sharegpt_ranking":
        turns = [{"from": m["role"], "value": m["content"]} for m in asked]
        answers = [{"from": "gpt", "value": text} for text in (a, b)]
        shapes = [{"conversations": turns, "chosen": answers[0], "rejected": answers[1]}]
    row = draw.choice(shapes)
    if draw.random() < 0.3:
        row = {name: _turned(value) for name, value in row.items()}
    if layout == "columns":
        row |= {"score": draw.choice([None, 0, 2.5]), "system": draw.choice([None, "Be kind."])}
    return row | draw.choice(MORE)


def _turned(value):
    """Messages with their keys the other way round."""
    if isinstance(value, list):
        return [dict(reversed(message.items())) for message in value]
    return value


SOURCES = {
    "trl": ("trl", {}, {}),
    "in_answers": ("trl", {}, {"prompt": "in_answers"}),
    "talk": ("trl", {}, {"format": "conversational"}),
    "renamed": ("trl", {"chosen": "rejected", "rejected": "chosen"}, {}),
    "hh": ("hh_rlhf", {}, {}),
    "gpt": ("sharegpt_ranking", {}, {}),
    "names": ("columns", {"margin": "score", "system": "system"}, {}),
    "plain": ("columns", {}, {"tool_turns": "quarantine"}),
}


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_every_shape_come_to_the_same_both_ways(seed):
    draw = random.Random(seed)
    for name, (layout, mapping, options) in SOURCES.items():
        given = (LAYOUTS[layout].options or Options)(**options)
        rows = [shaped(draw, layout) for _ in range(300)]
        short, long = _both_ways(Plan({name: (layout, mapping, given)}, seed, 0.5), rows)
        assert short == long
        assert len(short[0]) > 60


def test_whatever_a_pair_says_besides_comes_to_the_same_both_ways():
    """Read by no layout, since none says all of it of one pair."""
    draw = random.Random(0)

    def read(row):
        return [Pair(f"Which {row['n']}?", "this", "that", **row["says"])]

    says = {
        "margin": [None, 0.0, 2.5],
        "weight": [1.0, 0.5],
        "preference": [1.0, 0.8, TIE, 0.2],
        "comparison": [None, "c"],
        "chosen_first": [None, True, False],
        "tools": [None, None, "[]"],
    }
    rows = [{"n": n, "says": {k: draw.choice(v) for k, v in says.items()}} for n in range(400)]
    plan = Plan({"s": ("columns", {}, CellOptions())}, 0, 0.5)
    short, long = _both_ways(plan, rows, read)
    assert short == long
    assert len(short[0]) == 400


ASK, YES, NO = talk("user", "Is it so?"), talk("assistant", "Yes, a."), talk("assistant", "No, b.")
SAID = {"prompt": ASK, "chosen": YES, "rejected": NO}
TRANSCRIPTS = {s: f"\n\nHuman: So?\n\nAssistant: {s}" for s in ("chosen", "rejected")}
SOUND = [
    ("trl", SAID),
    ("trl", SAID | {"margin": 1.5, "score": 2}),
    ("trl", SAID | {"tools": None, "images": None}),
    ("trl", {name: _turned(value) for name, value in SAID.items()}),
    ("trl", {"chosen": ASK + YES, "rejected": ASK + NO}),
    ("trl", {"prompt": ASK, "chosen": ASK + YES, "rejected": ASK + NO}),
    ("trl", {"prompt": "Is it so?", "chosen": ASK + YES, "rejected": ASK + NO}),
    ("trl", {"prompt": "Is it so?", "chosen": YES, "rejected": NO}),
    ("trl", {"prompt": ASK, "chosen": "Yes", "rejected": "No"}),
    ("trl", {"prompt": "Is it so?", "chosen": "Yes", "rejected": "No"}),
    ("trl", {"chosen": "Is it so? Yes", "rejected": "Is it so? No"}),
    ("in_answers", {"prompt": "?", "chosen": ASK + YES, "rejected": ASK + NO}),
    ("talk", {"prompt": "Is it so?", "chosen": "Yes", "rejected": "No"}),
    ("renamed", SAID),
    ("names", SAID | {"score": 2.5, "system": "Be kind."}),
    ("hh", TRANSCRIPTS),
    (
        "gpt",
        {"conversations": [{"from": "human", "value": "So?"}], "chosen": "Yes", "rejected": "No"},
    ),
]


@pytest.mark.parametrize(("source", "row"), SOUND, ids=lambda value: str(value)[:60])
def test_sound_rows_of_every_shape_are_usual(source, row):
    layout, mapping, options = SOURCES[source]
    given = (LAYOUTS[layout].options or Options)(**options)
    taker = Lanes(ShardPairs(Plan({source: (layout, mapping, given)}, 0, 0.5)))
    found = taker._usual(source, _batch(source, [row, row]))
    assert found is not None
    assert found.places == [0, 1]


@pytest.mark.parametrize(("every", "asked"), [(4, True), (20, False)])
def test_a_source_of_other_rows_is_not_asked_for_usual_ones_again(every, asked):
    rows = [usual(n) if n % every == 0 else {"chosen": [], "rejected": []} for n in range(300)]
    shard = ShardPairs(Plan({"s": ("trl", {}, TrlOptions())}, 0, 0.5))
    taker = Lanes(shard)
    for start in range(0, 300, 100):  # in runs that are too short to tell it alone
        assert taker.take(_batch("s", rows[start : start + 100])).num_rows == 100 // every
    assert (taker._parts["s"] is not None) == asked


def test_rows_behind_those_that_tell_it_are_not_asked_either():
    given = []
    shard = ShardPairs(Plan({"s": ("columns", {}, CellOptions())}, 0, 0.5))
    read = shard.readers["s"]
    shard.readers["s"] = lambda row: given.append(row) or read(row)
    rows = [{"chosen": [], "rejected": []}] * (PIECE_ROWS + 90)
    pairs = Lanes(shard).take(_batch("s", rows))
    assert (pairs.num_rows, len(shard.quarantine.rows)) == (0, len(rows))
    assert len(given) == 2 * PIECE_ROWS + 90


JUNK = st.builds(lambda row, nested: row | nested, ROW, NESTED) | st.just([1]) | st.just("chosen")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(JUNK, min_size=1, max_size=8),
    st.sampled_from(sorted(name for name in LAYOUTS if not LAYOUTS[name].joins)),
)
def test_rows_of_any_values_come_to_the_same_both_ways(rows, layout):
    options = (LAYOUTS[layout].options or Options)()
    short, long = _both_ways(Plan({"s": (layout, {}, options)}, 0, 0.5), rows)
    assert short == long


def _both_ways(plan, rows, read=None):
    batch = _batch(*plan.layouts, rows)
    return [_converted(plan, batch, read, quick=quick) for quick in (True, False)]


def _batch(source, rows):
    numbers = [*range(1, len(rows) + 1)]
    raws = [json.dumps(row, ensure_ascii=n % 2 == 0) for n, row in zip(numbers, rows, strict=True)]
    columns = [source] * len(rows), ["f"] * len(rows), numbers, raws
    return pa.RecordBatch.from_pydict(dict(zip(ROW_COLUMNS, columns, strict=True)))


def _converted(plan, rows, read, *, quick):
    shard = ShardPairs(plan)
    if read:
        shard.readers = dict.fromkeys(shard.readers, read)
    taker = Lanes(shard)
    if not quick:
        taker._parts = dict.fromkeys(taker._parts)
    pairs = [*taker.take(rows).to_pylist(), *shard.batch().to_pylist()]
    (source,) = plan.layouts
    return (
        pairs,
        np.concatenate(shard.key_arrays).tolist(),
        np.concatenate(shard.hashes).tolist(),
        shard.ledger.to_json(),
        shard.quarantine.rows,
        dict(sorted(shard.notes.get(source, {}).items())),
    )
