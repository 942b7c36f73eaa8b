"""Sources that are for training or evaluation alone, or whose prompts are not used at all."""

import json
from itertools import product

import pytest

from tasks.artifact import Store
from tasks.conversion import ConversionParams, step
from tasks.errors import DataError
from tasks.ingestion import Source

SYSTEM = {"role": "system", "content": "Be kind."}


def pair(question, n=0, before=()):
    prompt = [*before, {"role": "user", "content": question}]
    return {
        "prompt": prompt,
        "chosen": [{"role": "assistant", "content": f"Good {n}."}],
        "rejected": [{"role": "assistant", "content": f"Bad {n}."}],
    }


@pytest.fixture
def run(ingest, pairs_of, tmp_path):
    """By source, the (question, split) of its pairs; and the report."""

    def of(given, uses, **params):
        sources = tuple(
            Source(name=name, path=name, layout="trl", use=uses.get(name, "both")) for name in given
        )
        shards = [
            [(name, name, n, json.dumps(row)) for n, row in enumerate(rows, 1)]
            for name, rows in given.items()
        ]
        directory = tmp_path / f"ingestion-{len(list(tmp_path.iterdir()))}"
        made = step(ConversionParams(**params), sources, ingest(directory, shards))
        artifact = Store(tmp_path / "data").obtain(made)
        kept = {name: [] for name in given}
        for row in pairs_of(artifact):
            kept[row["source"]].append((row["prompt"][-1]["content"], row["split"]))
        return kept, artifact.report

    return of


def test_a_source_is_wholly_held_out_or_wholly_trained_on(run):
    given = {name: [pair(f"{name} {n}?") for n in range(40)] for name in ("a", "gold", "more")}
    uses = {"gold": "eval", "more": "train"}
    kept, report = run(given, uses, eval_fraction=0.3)
    assert {split for _, split in kept["gold"]} == {"eval"}
    assert {split for _, split in kept["more"]} == {"train"}
    assert {split for _, split in kept["a"]} == {"train", "eval"}
    assert [len(pairs) for pairs in kept.values()] == [40, 40, 40]
    alone, _ = run({"a": given["a"]}, {}, eval_fraction=0.3)
    assert kept["a"] == alone["a"], "the other sources move none of its pairs"
    none, _ = run(given, uses, eval_fraction=0)
    assert {split for _, split in none["a"]} == {"train"}
    assert {split for _, split in none["gold"]} == {"eval"}
    assert report["sources"]["gold"]["eval"] == 40


@pytest.mark.parametrize(("order", "duplicates"), [*product((1, -1), ("drop", "keep"))])
def test_what_a_gold_set_asks_is_trained_on_nowhere(run, order, duplicates):
    given = {
        "a": [pair(f"q{n}?", n) for n in range(30)] + [pair("Q3?  ", 77)],
        "gold": [pair(f"q{n}?", n) for n in range(10)],
    }
    given = dict([*given.items()][::order])
    chosen = {"eval_fraction": 0.3, "duplicates": duplicates}
    kept, report = run(given, {"gold": "eval"}, **chosen)
    assert sorted(question for question, _ in kept["gold"]) == sorted(f"q{n}?" for n in range(10))
    assert not [
        q
        for q, split in kept["a"]
        if split == "train" and q.strip().lower()[:-1] in {f"q{n}" for n in range(10)}
    ]
    dropped = report["ledger"]["a"]["dropped"]
    held_out = [q for q, split in kept["a"] if split == "eval"]
    assert dropped["held_out_elsewhere"] > 5
    assert sum(dropped.values()) + len(kept["a"]) == 31
    assert held_out


def test_prompts_of_an_excluded_source_are_used_nowhere(run):
    given = {
        "a": [pair(f"q{n}?", n) for n in range(30)],
        "bench": [pair(f"q{n}?", n + 50) for n in range(10)] + [pair("other?")],
    }
    kept, report = run(given, {"bench": "exclude"}, eval_fraction=0.5)
    assert kept["bench"] == []
    assert sorted(q for q, _ in kept["a"]) == sorted(f"q{n}?" for n in range(10, 30))
    ledger = report["ledger"]
    assert ledger["a"]["dropped"] == {"excluded": 10}
    assert ledger["bench"]["dropped"] == {"excluded": 11}


def test_under_openings_a_longer_conversation_of_a_gold_question_is_out_too(run):
    longer = pair(
        "And then?",
        1,
        [{"role": "user", "content": "q0?"}, {"role": "assistant", "content": "So."}],
    )
    given = {"a": [longer, *(pair(f"q{n}?", n) for n in range(1, 9))], "gold": [pair("q0?")]}
    for split_by, out in (("prompt", 0), ("opening", 1)):
        _, report = run(given, {"gold": "eval"}, eval_fraction=0.0, split_by=split_by)
        dropped = report["ledger"]["a"]["dropped"]
        assert dropped.get("held_out_elsewhere", 0) == out


def test_under_openings_a_system_makes_no_other_question(run):
    rows = [pair(f"q{n}?", n, before) for n in range(60) for before in ((), [SYSTEM])]
    kept, _ = run({"a": rows}, {}, eval_fraction=0.4, split_by="opening")
    splits = {}
    for question, split in kept["a"]:
        splits.setdefault(question, set()).add(split)
    assert len(splits) == 60
    assert {len(found) for found in splits.values()} == {1}


def test_where_nothing_is_left_the_message_says_what_left_it_out(run):
    given = {name: [pair(f"{n}?", name) for n in range(4)] for name in ("votes", "bench")}
    says = r"no pair is left of 8 rows.*prompts of a source with use: exclude: give other data"
    with pytest.raises(DataError, match=says):
        run(given, {"bench": "exclude"})
    says = r"train split is empty.*4 pairs were left out: their prompts are held out by a source"
    with pytest.raises(DataError, match=says):
        run(given, {"bench": "eval"})
    kept, _ = run({"votes": given["votes"]}, {}, eval_fraction=0)
    assert len(kept["votes"]) == 4
