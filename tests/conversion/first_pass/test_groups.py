"""Rows that make pairs together, wherever they stand: the ledger, resuming, and the order."""

import dataclasses
import json
import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tasks.artifact import Store, Workspace
from tasks.conversion import ConversionParams, step
from tasks.errors import DataError
from tasks.ingestion import Source

LENIENT = {"eval_fraction": 0.0, "max_bad_fraction": 1.0}
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def made(ingest, directory, rows, cuts=(), layout="unpaired", options=None, **params):
    """The step on rows of one source, in shards that end at `cuts`."""
    entries = [("votes", "v.jsonl", i, json.dumps(row)) for i, row in enumerate(rows, 1)]
    edges = [0, *sorted(cuts), None]
    shards = [entries[a:b] for a, b in pairwise(edges)]
    source = Source(name="votes", path="v.jsonl", layout=layout, options=options)
    return step(ConversionParams(**(LENIENT | params)), (source,), ingest(directory, shards))


def unpaired(prompt, completion, label):
    return {"prompt": prompt, "completion": completion, "label": label}


ROWS = [
    unpaired("a", "good", True), unpaired("b", "only", True), unpaired("c", "x", True),
    unpaired("a", "bad", False), unpaired("a", "worse", False), unpaired("c", "", False),
    unpaired("d", "no", False), unpaired("d", "yes", True), unpaired("a", "fine", True),
]  # fmt: skip


def test_rows_of_one_prompt_make_pairs_across_shards(tmp_path, ingest, pairs_of, quarantine_of):
    stage = made(ingest, tmp_path / "i", ROWS, cuts=(2, 4, 7))
    artifact = Store(tmp_path / "data").obtain(stage)
    account = artifact.report["ledger"]["votes"]
    # a: 2 good x 2 bad of 4 rows; b: alone; c: its bad answer is empty; d: one pair of 2 rows
    assert account == {
        "rows_in": 9, "added": 0, "rows_out": 5,
        "dropped": {"unpaired_alone": 2, "empty_response": 1, "joined": 1},
    }  # fmt: skip
    found = {(p["prompt"], p["chosen"], p["rejected"], p["row"]) for p in pairs_of(artifact)}
    assert found == {
        ("a", "good", "bad", 1), ("a", "good", "worse", 1), ("a", "fine", "bad", 9),
        ("a", "fine", "worse", 9), ("d", "yes", "no", 8),
    }  # fmt: skip
    kept = {
        (e["row"], e["reason"], json.loads(e["raw"])["prompt"]) for e in quarantine_of(artifact)
    }
    assert kept == {(2, "unpaired_alone", "b"), (3, "unpaired_alone", "c"),
                    (6, "empty_response", "c")}  # fmt: skip
    assert not list(artifact.path.glob("scratch*"))


def test_rows_are_joined_by_an_id_across_files_and_one_may_state_the_prompt(
    tmp_path, ingest, pairs_of, quarantine_of
):
    rows = [
        {"id": 1, "prompt": "Hi"}, {"id": 1, "response": "Hello.", "score": 3},
        {"id": 1, "response": "No.", "score": 1}, {"id": 1, "response": "Hm.", "score": 1},
        {"id": 2, "response": "x", "score": 1}, {"id": 2, "response": "y", "score": 2},
        {"id": 3, "prompt": "p", "response": "x", "score": 1},
        {"id": 3, "prompt": "q", "response": "y", "score": 2},
    ]  # fmt: skip
    stage = made(ingest, tmp_path / "i", rows, (3, 6), "scored", {"by": "id"})
    artifact = Store(tmp_path / "data").obtain(stage)
    assert [(p["prompt"], p["chosen"], p["rejected"], p["margin"]) for p in pairs_of(artifact)] == [
        ("Hi", "Hello.", rejected, 2.0) for rejected in sorted(("Hm.", "No."), key=lambda t: [
            p["rejected"] for p in pairs_of(artifact)].index(t))
    ]  # fmt: skip
    account = artifact.report["ledger"]["votes"]
    # id 1: three answers in 4 rows make 2 pairs and a tie; id 2: no prompt; id 3: two prompts
    assert account["dropped"] == {"joined": 2, "no_prompt": 2, "prompts_differ": 1, "tie": 1}
    assert account["rows_in"] == 8 == account["rows_out"] + 6
    assert {e["reason"] for e in quarantine_of(artifact)} == {"no_prompt", "prompts_differ", "tie"}


def test_sources_that_are_joined_and_others_keep_to_themselves(tmp_path, ingest, pairs_of):
    flat = {"prompt": "a", "chosen": "up", "rejected": "down"}
    shards = [
        [("kto", "k", 1, json.dumps(ROWS[0])), ("flat", "f", 1, json.dumps(flat))],
        [("more", "m", 1, json.dumps(ROWS[4]))],
        [("kto", "k", 2, json.dumps(ROWS[3])), ("more", "m", 2, json.dumps(ROWS[8]))],
        [("flat", "f", 2, json.dumps(flat | {"prompt": "b"}))],
    ]
    sources = [Source(name=name, path="x") for name in ("flat", "kto", "more")]
    stage = step(ConversionParams(**LENIENT), sources, ingest(tmp_path / "i", shards))
    artifact = Store(tmp_path / "data").obtain(stage)
    assert artifact.report["layouts"] == {"flat": "trl", "kto": "unpaired", "more": "unpaired"}
    assert sorted((p["source"], p["chosen"], p["rejected"]) for p in pairs_of(artifact)) == [
        ("flat", "up", "down"), ("flat", "up", "down"), ("kto", "good", "bad"),
        ("more", "fine", "worse"),
    ]  # fmt: skip


def test_a_row_of_its_own_kind_is_read_beside_rows_that_are_joined(tmp_path, ingest, pairs_of):
    rows = [
        {"prompt": "a", "response": "x", "helpfulness": 4},
        {"prompt": "a", "response_1": "y", "response_2": "z", "preference_strength": 1},
        {"prompt": "a", "response": "w", "helpfulness": 1},
    ]
    stage = made(ingest, tmp_path / "i", rows, (1,), "helpsteer")
    pairs = pairs_of(Store(tmp_path / "data").obtain(stage))
    assert sorted((p["chosen"][0]["content"], p["margin"]) for p in pairs) == [("x", 3.0), ("z", 1)]


def test_many_answers_to_one_prompt_are_capped_and_counted(tmp_path, ingest):
    rows = [unpaired("a", f"{label} {i}", label) for i in range(60) for label in (True, False)]
    stage = made(ingest, tmp_path / "i", rows, (50,), options={"max_pairs": 10})
    account = Store(tmp_path / "data").obtain(stage).report["ledger"]["votes"]
    assert (account["rows_out"], account["dropped"]) == (10, {"capped": 3590})
    assert account["rows_in"] + account["added"] == 3600


def test_bad_pairs_of_a_row_are_a_share_of_pairs_and_never_more_than_all(tmp_path, ingest):
    rows = [{"prompt": f"p{i}", "chosen": ["x", ""], "rejected": ["y", " "]} for i in range(2)]
    # each row: 4 pairs, of which 3 have an empty answer: 6 of 2 rows + 6 added
    stage = made(ingest, tmp_path / "i", rows, (), "rewardbench2", max_bad_fraction=0.75)
    account = Store(tmp_path / "data").obtain(stage).report["ledger"]["votes"]
    assert (account["added"], account["dropped"]) == (6, {"empty_response": 6})
    strict = made(ingest, tmp_path / "j", rows, (), "rewardbench2", max_bad_fraction=0.7)
    with pytest.raises(DataError, match=r"6 of 8 rows or pairs \(75\.00%\) cannot be used"):
        Store(tmp_path / "data").obtain(strict)


def test_options_are_in_the_key(tmp_path, ingest):
    plain, capped = (
        made(ingest, tmp_path / str(i), ROWS, (2, 5), options=options)
        for i, options in enumerate([None, {"max_pairs": 3}])
    )
    assert plain.key != capped.key


@pytest.mark.slow
def test_workers_change_nothing(tmp_path, ingest):
    digests = set()
    for workers in (1, 2):
        stage = made(ingest, tmp_path / str(workers), ROWS, (2, 5), workers=workers)
        digests.add(Store(tmp_path / f"data-{workers}").obtain(stage).digest)
    assert len(digests) == 1


def test_a_group_shard_holds_each_key_in_one_place(tmp_path, ingest):
    """Rows of one prompt stand side by side in one shard, whatever shards they came from."""
    from tasks.conversion.first_pass.groups import laid_out
    from tasks.conversion.first_pass.shard_pairs import Plan
    from tasks.conversion.layouts import options_of
    from tasks.ingestion.shards import row_shards

    rows = [unpaired(f"p{i % 7}", f"c{i}", i % 2) for i in range(60)]
    entries = [("votes", "v", i, json.dumps(row)) for i, row in enumerate(rows, 1)]
    shards = [entries[i : i + 12] for i in range(0, 60, 12)]
    given = row_shards(ingest(tmp_path / "i", shards))
    plan = Plan({"votes": ("unpaired", {}, options_of("votes", "unpaired", {}))}, 0, 0.0)
    (tmp_path / "w").mkdir()
    workspace = Workspace(tmp_path / "w", -1, {})
    single, grouped = laid_out(workspace, given, plan, workers=1)
    assert single == []
    assert [path.stem for path in grouped] == ["00005", "00006", "00007", "00008", "00009"]
    seen = set()
    for path in grouped:
        keys = pq.read_table(path)["key"].to_pylist()
        starts = [k for k, before in zip(keys, [None, *keys], strict=False) if k != before]
        assert len(starts) == len(set(starts))
        assert not seen & set(starts)
        seen |= set(starts)
    assert len(seen) == 7
    assert sum(len(pq.read_table(path)) for path in grouped) == 60


class Cut(Exception):
    """Stands for a kill."""


@dataclasses.dataclass(frozen=True)
class CutWorkspace(Workspace):
    """A workspace whose n-th finished unit is cut off before it is marked."""

    left: list[int] = dataclasses.field(default_factory=list)

    def finish(self, unit, summary):
        self.left[0] -= 1
        if self.left[0] == 0:
            raise Cut
        super().finish(unit, summary)


def test_cut_off_at_any_unit_it_continues_to_the_same_bytes(ingest):
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        memory = Path(directory)
        whole = made(ingest, memory / "rows", ROWS, (3, 6))
        expected = Store(memory / "whole").obtain(whole)
        for cut_at in range(1, 4 * 3 + 1):  # routed, grouped, rows and pairs of three shards
            store, left = Store(memory / f"cut-{cut_at}"), [cut_at]

            def build(workspace, left=left):
                whole.build(CutWorkspace(**vars(workspace), left=left))

            with pytest.raises(Cut):
                store.obtain(dataclasses.replace(whole, build=build))
            again = store.obtain(whole)
            assert again.digest == expected.digest
            assert again.report == expected.report
