"""Rows by columns and rows one by one: whatever stands where, the same artifact comes of both."""

import json
import random

import pytest

from tasks.artifact import Store
from tasks.conversion import ConversionParams, step
from tasks.conversion.first_pass import lanes
from tasks.conversion.first_pass.usual_pairs import PIECE_ROWS
from tasks.ingestion import Source
from tests.at_length import at_length
from tests.conversion.row_shapes import talk

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


@pytest.mark.parametrize("seed", [0, 1, *at_length(2, 3)])
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


def test_usual_rows_among_others_give_what_the_long_way_gives(both_ways, pairs_of):
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
    short, long = both_ways([[("votes", row) for row in rows]])
    assert (short.digest, short.report) == (long.digest, long.report)
    assert [pair["row"] for pair in pairs_of(short)] == [
        i for i in range(1, 61) if i % 6 != 5
    ]  # fmt: skip
    assert len(short.report["notes"]["votes"]) == 3
