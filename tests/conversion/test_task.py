"""The stage as a whole: duplicates, splits, the ledger, and what a kill leaves behind."""

import dataclasses
import errno
import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.artifact import Store, Workspace
from tasks.conversion import ConversionParams, pair_shards, step
from tasks.conversion.first_pass import tables
from tasks.errors import DataError, ParamsError
from tasks.ingestion import Source

TEXT = {"prompt": "Hi", "chosen": "Hello.", "rejected": "No."}
SWAPPED = {"prompt": "Hi", "chosen": "No.", "rejected": "Hello."}


def other(i):
    return TEXT | {"prompt": f"Question {i}"}


def test_columns_of_a_pair(convert, pairs_of):
    (row,) = pairs_of(convert([TEXT | {"margin": 2, "tools": [{"name": "add"}]}]))
    assert len(row.pop("pair_id")) == 32
    assert len(row.pop("group")) == 32
    assert row == {
        **TEXT,
        "format": "standard",
        "tools": '[{"name":"add"}]',
        "chat_template_kwargs": None,
        "margin": 2.0,
        "weight": 1.0,
        "preference": 1.0,
        "comparison": None,
        "source": "votes",
        "file": "votes.jsonl",
        "row": 1,
        "split": "train",
        "images": None,
        "chosen_first": None,
    }


@pytest.mark.catalogue(77, 79)
def test_first_of_equal_pairs_is_kept_across_shards_and_row_groups(convert, pairs_of, monkeypatch):
    composed, decomposed = other("caf\u00e9"), other("cafe\u0301")
    rows = [other(1), TEXT, composed, TEXT | {"margin": 1}, decomposed, other(2), TEXT]
    monkeypatch.setattr(tables, "BATCH_ROWS", 2)
    artifact = convert(rows, shard_rows=4, workers=1)
    assert [pair["row"] for pair in pairs_of(artifact)] == [1, 2, 3, 6]
    assert artifact.report["duplicates"] == {"exact": 2, "normalised": 1, "other_margin": 1}
    assert artifact.report["ledger"]["votes"]["dropped"] == {"duplicate": 3}
    kept = convert(rows, shard_rows=2, duplicates="keep")
    assert len(pairs_of(kept)) == 7
    assert kept.report["duplicates"] == artifact.report["duplicates"]


@pytest.mark.catalogue(78)
def test_contradictions_are_dropped_on_both_sides_and_quarantined(convert, pairs_of, quarantine_of):
    padded = SWAPPED | {"chosen": " No."}
    rows = [TEXT, other(1), padded, TEXT, SWAPPED | {"tools": [{"name": "add"}]}]
    artifact = convert(rows, shard_rows=2)
    assert [pair["row"] for pair in pairs_of(artifact)] == [2, 5]  # 5 was asked with tools
    assert artifact.report["contradictions"] == 3
    assert artifact.report["ledger"]["votes"]["dropped"] == {"contradiction": 3}
    found = {entry["row"]: entry for entry in quarantine_of(artifact)}
    assert sorted(found) == [1, 3, 4]
    assert found[3]["reason"] == "contradiction"
    assert json.loads(found[3]["raw"]) == padded
    assert "conversion.contradictions: majority, soft or keep" in found[3]["message"]
    kept = convert(rows, shard_rows=2, contradictions="keep")
    assert [pair["row"] for pair in pairs_of(kept)] == [1, 2, 3, 5]  # 4 repeats 1
    assert kept.report["contradictions"] == 2
    everything = convert(rows, shard_rows=2, contradictions="keep", duplicates="keep")
    assert [pair["row"] for pair in pairs_of(everything)] == [1, 2, 3, 4, 5]


def test_a_row_for_each_annotator_becomes_one_pair_with_their_share(convert, pairs_of):
    # two of three say TEXT; one each of the next, which nobody can decide; the last is undisputed
    even = [other(1), other(1) | {"chosen": other(1)["rejected"], "rejected": other(1)["chosen"]}]
    rows = [SWAPPED, TEXT | {"chosen": "Hello. "}, *even, TEXT, other(2), other(2)]
    artifact = convert(rows, shard_rows=1, contradictions="soft")
    found = {pair["row"]: pair["preference"] for pair in pairs_of(artifact)}
    assert found == {2: pytest.approx(2 / 3, abs=1e-9), 6: 1.0}
    dropped = {"joined": 2, "contradiction": 2, "duplicate": 1}
    assert artifact.report["ledger"]["votes"]["dropped"] == dropped
    assert artifact.report["with_preference"] == 1
    grown = convert([*rows, SWAPPED, SWAPPED], shard_rows=2, contradictions="soft")
    turned = {pair["row"]: pair["preference"] for pair in pairs_of(grown)}
    assert turned == {1: pytest.approx(3 / 5, abs=1e-9), 6: 1.0}


@pytest.mark.catalogue(77, 78)
def test_of_a_contradiction_that_is_kept_each_side_is_kept_once(convert, pairs_of):
    rows = [TEXT, SWAPPED, TEXT, TEXT | {"chosen": "Hello. "}, SWAPPED | {"margin": 2}]
    kept = convert(rows, shard_rows=2, contradictions="keep")
    assert [pair["row"] for pair in pairs_of(kept)] == [1, 2]
    assert kept.report["duplicates"] == {"exact": 2, "normalised": 1, "other_margin": 1}
    assert kept.report["ledger"]["votes"]["dropped"] == {"duplicate": 3}
    assert kept.report["contradictions"] == 2


def test_length_baseline_counts_equal_lengths_one_half(convert):
    rows = [
        {"prompt": "a", "chosen": "long", "rejected": "x"},
        {"prompt": "b", "chosen": "long", "rejected": "x"},
        {"prompt": "c", "chosen": "x", "rejected": "y"},
        {"prompt": "d", "chosen": "x", "rejected": "long"},
    ]
    # (2 longer + 1 equal / 2) / 4
    assert convert(rows).report["length_baseline"] == {"all": 0.625, "train": 0.625, "eval": None}


def test_changed_roles_are_counted_per_source(convert):
    talk = {
        "chosen": [{"role": "human", "content": "Hi"}, {"role": "gpt", "content": "Hello."}],
        "rejected": [{"role": "human", "content": "Hi"}, {"role": "gpt", "content": "No."}],
    }
    report = convert([talk, talk | {"rejected": talk["chosen"][:1] + talk["rejected"][1:] * 2}])
    assert report.report["notes"] == {
        "votes": {"role gpt -> assistant": 2, "role human -> user": 2}
    }
    assert report.report["layouts"] == {"votes": "trl"}


def test_sources_with_layouts_of_their_own(tmp_path, ingest, pairs_of):
    flat, transcript = (
        Source(name="flat", path="a.csv", columns={"chosen": "up"}),
        Source(name="hh", path="b.jsonl"),
    )
    hh = {"chosen": "\n\nHuman: a\n\nAssistant: b", "rejected": "\n\nHuman: a\n\nAssistant: c"}
    rows = [
        [("hh", "b.jsonl", 1, json.dumps(hh))],
        [("flat", "a.csv", 7, json.dumps({"prompt": "x", "up": "y", "rejected": "z"}))],
    ]
    made = step(ConversionParams(eval_fraction=0), (flat, transcript), ingest(tmp_path / "i", rows))
    artifact = Store(tmp_path / "data").obtain(made)
    assert artifact.report["layouts"] == {"flat": "columns", "hh": "hh_rlhf"}
    found = [(p["source"], p["file"], p["row"], p["format"]) for p in pairs_of(artifact)]
    assert found == [("hh", "b.jsonl", 1, "conversational"), ("flat", "a.csv", 7, "standard")]
    assert {name: s["train"] for name, s in artifact.report["sources"].items()} == {
        "hh": 1,
        "flat": 1,
    }


def test_key_holds_what_changes_the_result_and_nothing_else(tmp_path, ingest):
    rows = ingest(tmp_path / "i", [[("a", "a", 1, json.dumps(TEXT))]])

    def key(*sources, **params):
        return step(ConversionParams(**params), sources, rows).key

    a, b = Source(name="a", path="a"), Source(name="b", path="b")
    assert key(a, b) == key(b, a) == key(a, b, workers=2)
    assert key(a.model_copy(update={"path": "c", "limit": 3}), b) == key(a, b)
    changed = [
        key(a),
        key(a.model_copy(update={"layout": "trl"}), b),
        key(a.model_copy(update={"columns": {"prompt": "q"}}), b),
        *(key(a, b, **{n: v}) for n, v in {
            "eval_fraction": 0.1, "seed": 1, "max_bad_fraction": 0.0, "duplicates": "keep",
            "contradictions": "keep"}.items()),
    ]  # fmt: skip
    assert len({key(a, b), *changed}) == len(changed) + 1
    with pytest.raises(ParamsError, match="unknown"):
        key(a.model_copy(update={"layout": "tlr"}))


def test_layout_that_cannot_be_recognised_fails_before_any_pair_is_written(convert, tmp_path):
    with pytest.raises(DataError, match="source 'votes': no layout fits the columns 'x'"):
        convert([{"x": 1}])
    assert not list((tmp_path / "data").rglob("pairs"))


MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where fsync costs nothing: for tests that commit hundreds of artifacts."""


@pytest.fixture
def memory():
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory)


class Cut(Exception):
    """Stands for a kill."""


@dataclasses.dataclass(frozen=True)
class CutWorkspace(Workspace):
    """A workspace whose n-th durable operation is cut off, before or after it is done."""

    left: list[int] = dataclasses.field(default_factory=list)
    after: bool = False

    def _cut(self, after):
        if after == self.after:
            self.left[0] -= 1
            if self.left[0] == 0:
                raise Cut

    @contextmanager
    def writing(self, name, *lasts):
        with super().writing(name, *lasts) as path:
            yield path
            self._cut(False)
        self._cut(True)

    def finish(self, unit, summary):
        self._cut(False)
        super().finish(unit, summary)
        self._cut(True)


OPERATIONS = 3 * (2 + 1) + 3 * (1 + 1) + 2 + 1
"""Of three shards: files and the mark that ends their unit, in both passes; what is quarantined of
two of them; the quarantine."""
TAKEN = 2 * (3 + 2)
"""Of them, those of the two shards that an earlier artifact has."""
ROWS = [other(i) for i in range(5)] + [TEXT, SWAPPED, other(1), TEXT | {"chosen": ""}, other(6)]


def made(ingest, directory, sharding, rows=ROWS, **params):
    entries = [("votes", "v.jsonl", i, json.dumps(row)) for i, row in enumerate(rows, 1)]
    shards = [entries[a:b] for a, b in zip((0, *sharding), (*sharding, None), strict=True)]
    given = {"eval_fraction": 0.0, "max_bad_fraction": 1.0} | params
    source = Source(name="votes", path="v.jsonl", layout="trl")
    return step(ConversionParams(**given), (source,), ingest(directory, shards))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("earlier", [False, True], ids=["alone", "with shards to take"])
def test_cut_off_at_any_operation_it_continues_to_the_same_bytes(memory, ingest, after, earlier):
    whole = made(ingest, memory / "rows", (3, 7))
    fewer = made(ingest, memory / "fewer", (3,), ROWS[:7])
    expected = Store(memory / "whole").obtain(whole)
    cut_at = 0
    while True:
        cut_at += 1
        store, left = Store(memory / f"cut-{cut_at}"), [cut_at]
        first = store.obtain(fewer) if earlier else None

        def build(workspace, left=left):
            whole.build(CutWorkspace(**vars(workspace), left=left, after=after))

        try:
            store.obtain(dataclasses.replace(whole, build=build))
        except Cut:
            if first and cut_at % 2:  # what was taken from there stays without it
                store.discard(first.path)
            again = store.obtain(whole)
        else:
            break
        assert again.digest == expected.digest
        assert again.report == expected.report
    assert cut_at - 1 == (OPERATIONS - TAKEN if earlier else OPERATIONS)


def test_pairs_of_a_shard_that_is_not_marked_as_done_are_made_again(memory, ingest):
    """They may not have lasted; here the records of the shard are an earlier artifact's."""
    store = Store(memory / "data")
    store.obtain(made(ingest, memory / "fewer", (3,), ROWS[:6]))
    whole = made(ingest, memory / "rows", (3, 6), ROWS[:7])  # the last contradicts the second shard

    def build(workspace):
        empty = workspace.path / "scratch/pairs/00001.parquet"
        empty.parent.mkdir(parents=True)
        empty.touch()
        whole.build(workspace)

    again = store.obtain(dataclasses.replace(whole, build=build))
    assert again.report["contradictions"] == 2
    assert again.digest == Store(memory / "apart").obtain(whole).digest


def test_finished_units_are_not_done_again(memory, ingest):
    whole = made(ingest, memory / "rows", (3, 7))
    store, left = Store(memory / "data"), [7]  # in the third shard: 3 operations each

    def build(workspace):
        whole.build(CutWorkspace(**vars(workspace), left=left))

    with pytest.raises(Cut):
        store.obtain(dataclasses.replace(whole, build=build))
    left[0] = 1000
    store.obtain(dataclasses.replace(whole, build=build))
    assert 1000 - left[0] == OPERATIONS - 2 * 3


def test_workers_do_not_change_the_bytes(tmp_path, ingest):
    whole = made(ingest, tmp_path / "rows", (3, 7))
    two = made(ingest, tmp_path / "again", (3, 7), workers=2)
    assert two.key == whole.key
    one, other = Store(tmp_path / "a").obtain(whole), Store(tmp_path / "b").obtain(two)
    assert one.digest == other.digest
    groups = [pq.read_metadata(path).row_group(0) for path in pair_shards(one)]
    assert {group.column(3).compression for group in groups} == {"UNCOMPRESSED"}


def test_a_file_system_without_hard_links_gets_the_same_bytes(tmp_path, ingest, monkeypatch):
    """Shards that lose no pair, and shards that an earlier artifact has."""
    fewer = made(ingest, tmp_path / "fewer", (3,), ROWS[:5])
    whole = made(ingest, tmp_path / "rows", (3, 7))
    expected = Store(tmp_path / "with").obtain(whole)

    def link(old, new):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), old, None, new)

    monkeypatch.setattr(os, "link", link)
    store = Store(tmp_path / "without")
    store.obtain(fewer)
    found = store.obtain(whole)
    assert (found.digest, found.report) == (expected.digest, expected.report)


ANSWERS = st.sampled_from(["a", "b", " b", "c", "", None, 3])
ROW = st.fixed_dictionaries(
    {"prompt": st.sampled_from(["p", "P", "q", "r", None]), "chosen": ANSWERS, "rejected": ANSWERS}
)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(ROW, max_size=25), data=st.data())
def test_ledger_balances_and_does_not_depend_on_shards_or_order(ingest, pairs_of, rows, data):
    rows = [other(0), *rows]
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        root = Path(directory)
        runs = []
        for run in ("one", "two"):
            mixed = rows if run == "one" else data.draw(st.permutations(rows))
            cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
            stage = made(ingest, root / run, cuts, mixed)
            artifact = Store(root / f"{run}-data").obtain(stage)
            account = artifact.report["ledger"]["votes"]
            assert account["rows_in"] == len(rows)
            assert account["rows_in"] == account["rows_out"] + sum(account["dropped"].values())
            pairs = pairs_of(artifact)
            assert len(pairs) == account["rows_out"] == artifact.report["pairs"]
            kept = {(p["prompt"], p["chosen"].strip(), p["rejected"].strip()) for p in pairs}
            assert len(kept) == len(pairs)
            assert not kept & {(prompt, b, a) for prompt, a, b in kept}
            runs.append((account, kept))
        assert runs[0] == runs[1]


@settings(max_examples=25, deadline=None)
@given(
    old=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    new=st.lists(st.integers(0, 80), max_size=30),
    seed=st.integers(0, 3),
)
def test_new_rows_move_no_pair_to_another_split_and_no_group_is_in_two(
    ingest, pairs_of, old, new, seed
):
    def splits(directory, numbers):
        rows = [other(f"{n // 2} {'?' * (n % 2)}") | {"chosen": f"Answer {n}"} for n in numbers]
        stage = made(ingest, directory, (), rows, eval_fraction=0.4, seed=seed)
        try:
            pairs = pairs_of(Store(directory / "data").obtain(stage))
        except DataError:  # a few rows may leave a split empty
            return None
        groups = {split: {p["group"] for p in pairs if p["split"] == split} for split in
                  ("train", "eval")}  # fmt: skip
        assert not groups["train"] & groups["eval"]
        return {p["pair_id"]: p["split"] for p in pairs}

    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        before = splits(Path(directory) / "before", old)
        after = splits(Path(directory) / "after", new[::2] + old + new[1::2])
    if before and after:
        assert before.items() <= after.items()
