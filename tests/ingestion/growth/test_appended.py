"""A file that has grown, been edited or been cut since: the same artifact as from scratch, and only
what is new is read."""

import json
import shutil

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.artifact import Store
from tasks.ingestion import row_groups, row_shards, shard_writer, shards
from tasks.ingestion.growth import marks
from tests.ingestion.conftest import Ingestion

BAD = '{"a":1,"a":2}\n'


def lines(start: int, stop: int, bad: bool = True) -> str:
    """Rows, of which every 1,000th is bad and every 700th is followed by a blank line."""
    made: list[str] = []
    for n in range(start, stop):
        made.append(BAD if bad and n % 1000 == 999 else json.dumps({"n": n, "s": "x: y"}) + "\n")
        if n % 700 == 0:
            made.append(" \n")
    return "".join(made)


WHOLE = lines(0, 25_000)
FULL = 4
"""Shards of it: with 10,000 rows and three times 4,000; three small ones stand behind them, of
which the first two take no more rows."""
CHANGES = {
    "appended": WHOLE + lines(25_000, 25_300),
    "appended in many shards": WHOLE + lines(25_000, 40_000),
    "appended with a bad row only": WHOLE + BAD,
    "the same": WHOLE,
    "edited in the middle": WHOLE.replace('"n": 15000,', '"n": 15x00,'),
    "edited at the beginning": WHOLE.replace('{"n": 1,', '{"m": 1,', 1),
    "row put in": WHOLE.replace('{"n": 15001,', '{"n": 0}\n{"n": 15001,'),
    "cut": WHOLE[: len(WHOLE) * 2 // 3],
    "cut at its last shard's end": lines(0, 18_018),
    "last line left open, and appended": WHOLE[:-1] + " \n" + lines(0, 10),
    "other line ends": WHOLE.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("before", [WHOLE, WHOLE[:-1]], ids=["closed", "open"])
def test_a_changed_file_gives_what_it_gives_from_scratch(ingestion, name, before):
    path = ingestion.write("a.jsonl", before)
    other = ingestion.write("b.jsonl", lines(0, 50))
    sources = {"name": "s", "path": str(path)}, {"name": "t", "path": str(other)}
    ingestion.store.obtain(ingestion.step(*sources))
    path.write_text(CHANGES[name], newline="")
    again = ingestion.store.obtain(ingestion.step(*sources))
    alone = Store(ingestion.directory / "apart").obtain(ingestion.step(*sources))
    assert again.digest == alone.digest
    assert again.report == alone.report
    if name != "the same" and before is WHOLE:  # and so on, change after change
        path.write_text(CHANGES["appended"], newline="")
        third = ingestion.store.obtain(ingestion.step(*sources))
        apart = Store(ingestion.directory / "third").obtain(ingestion.step(*sources))
        assert (third.digest, third.report) == (apart.digest, apart.report)


def nodes(artifact) -> list[int]:
    """What tells one file on the disk from its copy."""
    return [shard.stat().st_ino for shard in row_shards(artifact)]


def test_shards_before_the_change_are_those_of_the_earlier_artifact(ingestion):
    path = ingestion.write("a.jsonl", WHOLE)
    first = ingestion.run(path)
    path.write_text(CHANGES["appended"])
    second = ingestion.run(path)
    assert nodes(second)[: FULL + 2] == nodes(first)[: FULL + 2]
    assert not {*nodes(second)[FULL + 2 :]} & {*nodes(first)}
    path.write_text(CHANGES["appended in many shards"])
    full = ingestion.run(path)  # the small ones have become parts of full ones
    assert nodes(full)[:FULL] == nodes(first)[:FULL]
    assert not {*nodes(full)[FULL:]} & {*nodes(second)}
    path.write_text(CHANGES["edited in the middle"] + lines(25_000, 25_010))
    third = ingestion.run(path)
    assert nodes(third)[:2] == nodes(first)[:2]
    assert not {*nodes(third)[2:]} & {*nodes(first)}


def test_an_unchanged_file_beside_a_new_one_is_not_written_again(ingestion):
    ingestion.write("raw/a.jsonl", WHOLE)
    first = ingestion.run(ingestion.directory / "raw")
    ingestion.write("raw/b.jsonl", lines(0, 10))
    second = ingestion.run(ingestion.directory / "raw")
    assert nodes(second)[:-1] == nodes(first)
    ingestion.write("raw/a.jsonl", CHANGES["appended"])
    third = ingestion.run(ingestion.directory / "raw")
    apart = Store(ingestion.directory / "apart")
    source = {"name": "s", "path": str(ingestion.directory / "raw")}
    assert third.digest == apart.obtain(ingestion.step(source)).digest
    assert nodes(third)[:4] == nodes(first)[:4]


def test_a_damaged_shard_of_the_earlier_artifact_is_not_taken(ingestion):
    path = ingestion.write("a.jsonl", WHOLE)
    first = ingestion.run(path)
    shard = row_shards(first)[1]
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    path.write_text(CHANGES["appended"])
    second = ingestion.run(path)
    alone = Store(ingestion.directory / "apart").obtain(
        ingestion.step({"name": "s", "path": str(path)})
    )
    assert second.digest == alone.digest
    assert nodes(second)[0] == nodes(first)[0]


TINY = {
    "GROUP_ROWS": 6,
    "GROUP_BYTES": 120,
    "FIRST_SHARD_ROWS": 12,
    "LEAST_SHARD_ROWS": 12,
    "SMALL_SHARD_ROWS": 4,
    "SHARD_BYTES": 300,
    "PIECE_BYTES": 50,
}
"""Full shards of two groups, with three small ones before them; rows have 9 to 60 bytes."""
LINES = st.one_of(
    st.integers(1, 50).map(lambda size: json.dumps({"n": "x" * size}) + "\n"),
    st.sampled_from(['{"n":1}\n', '{"n":1}\n', " \n", BAD]),
)


STEPS = st.tuples(
    st.lists(LINES, max_size=15),
    st.booleans(),  # whether the last line is open
    st.none() | st.integers(0, 9),  # a shard that is damaged before
)


WIDE = json.dumps({"n": "x" * 50}) + "\n"
"""Of which seven fill a shard by their bytes."""


@settings(max_examples=30, deadline=None)
@example([([WIDE] * 5, False, None), ([WIDE] * 3, False, None)])
@given(st.lists(STEPS, min_size=2, max_size=6))
def test_however_a_file_grows_it_is_as_from_scratch(tmp_path_factory, steps):
    """Part by part, its last line closed or not, while another file changes, and shards of the
    artifact before are damaged; small shards become full ones."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (shards, shard_writer, row_groups, marks):
            for name in TINY.keys() & vars(module).keys():
                patch.setattr(module, name, TINY[name])
        ingestion = Ingestion(tmp_path_factory.mktemp("grows"))
        whole = '{"n":0}\n' * 12
        found = []
        for number, (part, cut, damaged) in enumerate(steps):
            if found and damaged is not None:
                shard = found[damaged % len(found)]
                shard.write_bytes(shard.read_bytes()[:-1] + b"x")
            whole += "".join(part)
            path = ingestion.write("a.jsonl", whole[: len(whole) - cut])
            other = ingestion.write("b.jsonl", f'{{"n":{number}}}\n')
            sources = {"name": "s", "path": str(path)}, {"name": "t", "path": str(other)}
            again = ingestion.store.obtain(ingestion.step(*sources))
            apart = Store(ingestion.directory / str(number)).obtain(ingestion.step(*sources))
            assert (again.digest, again.report) == (apart.digest, apart.report)
            found = row_shards(again)
        shutil.rmtree(ingestion.directory)


def test_small_shards_of_wide_rows_are_the_same_whatever_they_were_read_with(ingestion):
    """The second one stands in two groups of rows where all are read in one go, else in one."""
    wide = [json.dumps({"n": n, "s": "x" * 2500}) + "\n" for n in range(2_500)]
    path = ingestion.write("a.jsonl", '{"n":1}\n' * 10_000 + "".join(wide[:1_500]))
    first = ingestion.run(path)
    path.write_text('{"n":1}\n' * 10_000 + "".join(wide))
    again = ingestion.run(path)
    assert nodes(again)[:2] == nodes(first)[:2]
    assert nodes(again)[2] != nodes(first)[2]
    apart = Store(ingestion.directory / "apart").obtain(
        ingestion.step({"name": "s", "path": str(path)})
    )
    assert again.digest == apart.digest


def test_small_shards_behind_a_damaged_one_are_read_as_from_scratch(ingestion):
    """The file is as it was, and could fill a shard from where the damage is on."""
    wide = "".join(json.dumps({"n": n, "s": "x" * 2500}) + "\n" for n in range(4_500))
    path = ingestion.write("a.jsonl", '{"n":1}\n' * 10_000 + wide)
    first = ingestion.run(path)
    shard = row_shards(first)[2]
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    other = ingestion.write("b.jsonl", '{"n":1}\n')
    sources = {"name": "s", "path": str(path)}, {"name": "t", "path": str(other)}
    again = ingestion.store.obtain(ingestion.step(*sources))
    apart = Store(ingestion.directory / "apart").obtain(ingestion.step(*sources))
    assert (again.digest, again.report) == (apart.digest, apart.report)


def test_small_shards_are_taken_until_there_are_rows_enough_for_a_full_one(ingestion):
    """Whether lines are rows is not asked: blank ones count, and one that might still be open."""
    start = "".join(f'{{"n":{n}}}\n' for n in range(12_000))
    path = ingestion.write("a.jsonl", start)
    first = ingestion.run(path)
    for more, taken in ((" \n" * 1_998, 3), (" \n" * 1_999, 1)):
        path.write_text(start + more)
        again = ingestion.run(path)
        assert len(row_shards(again)) == 3
        assert [*map(int.__eq__, nodes(again), nodes(first))] == [n < taken for n in range(3)]
        shutil.rmtree(again.path)
