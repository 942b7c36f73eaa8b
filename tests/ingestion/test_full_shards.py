"""Full shards made side by side: the same artifact as by reading line by line."""

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.artifact import Store, end_workers
from tasks.artifact.durable import writing
from tasks.errors import DataError
from tasks.ingestion import full_shards, shard_writer, shards, unit
from tasks.ingestion.appended import Past
from tasks.ingestion.full_shards import MakeShard, spans
from tasks.ingestion.shard_writer import ShardWriter
from tests.ingestion.test_appended import BAD, FULL, lines, nodes


def sound(start: int, stop: int) -> str:
    """Rows, and nothing else."""
    return lines(start, stop, bad=False).replace(" \n", "")


WHOLE = sound(0, 25_000)
LARGE = "".join(f'{{"n":{n:5},"s":"{"x" * 4077}"}}\n' for n in range(9_000))
"""Rows of 4,095 bytes: groups and shards of it end by their bytes."""
FILES = {
    "rows alone": (WHOLE, FULL),
    "last line left open": (WHOLE[:-1], FULL),
    "ends with a full shard": ("".join(WHOLE.splitlines(keepends=True)[:18_000]), 3),
    "large rows": (LARGE, 1),
    "byte order mark": ("\ufeff" + WHOLE, FULL),
    "another within": (WHOLE.replace('{"n": 15000,', '\ufeff{"n": 15000,'), 2),
    "bad row": (WHOLE.replace('{"n": 15000,', BAD + '{"n": 15000,'), 2),
    "blank line": (WHOLE.replace('{"n": 11000,', ' \n{"n": 11000,'), 1),
    "bad row at once": (BAD + WHOLE, 0),
    "one line end of two bytes": (WHOLE.replace("12345", "12345!").replace("!", "", 1), FULL),
    "carriage returns": (WHOLE.replace("\n", "\r\n"), FULL),
    "carriage returns in large rows": (LARGE.replace("\n", "\r\n"), 0),  # they look longer
    "line breaks that are text": (WHOLE.replace("x: y", "x\u2028\u0085y"), FULL),
}


@pytest.fixture
def used(monkeypatch) -> list[int]:
    """Two processes are said to pay, but this one does it all; how many shards of each file that is
    read were made so, and used."""
    counts: list[int] = []
    made = unit.side_by_side_past

    def side_by_side_past(*given):
        found = made(*given)
        counts.append(len(found.marks) - len(given[4].marks))
        return found

    monkeypatch.setattr(unit, "side_by_side_past", side_by_side_past)
    monkeypatch.setattr(full_shards, "processes_for", lambda *_: 2)
    monkeypatch.setattr(full_shards, "each", lambda make, some, *_: [*map(make, some)])
    return counts


def settled(path):
    """Waits until a change of the file would show."""
    while path.stat().st_ctime_ns > time.time_ns() - full_shards.TICK_NANOSECONDS:
        time.sleep(0.005)
    return path


@pytest.mark.parametrize("name", FILES)
def test_whatever_the_lines_the_artifact_is_the_same(ingestion, used, monkeypatch, name):
    content, full = FILES[name]
    path = settled(ingestion.write("a.jsonl", content))
    beside = ingestion.run(path)
    assert used == [full]
    monkeypatch.undo()
    apart = Store(ingestion.directory / "apart")
    alone = apart.obtain(ingestion.step({"name": "s", "path": str(path)}))
    assert (beside.digest, beside.report) == (alone.digest, alone.report)


@pytest.mark.parametrize("name", ["rows alone", "ends with a full shard", "byte order mark"])
def test_what_is_appended_then_finds_them_as_its_past(ingestion, used, name):
    full = FILES[name][1]
    kept = full - (name == "ends with a full shard")  # of which the file's end is not sure
    path = settled(ingestion.write("a.jsonl", FILES[name][0]))
    first = ingestion.run(path)
    with path.open("a") as file:
        file.write(sound(0, 9_000))
    second = ingestion.run(settled(path))
    assert nodes(second)[:kept] == nodes(first)[:kept]
    assert used == [full, 3]
    apart = Store(ingestion.directory / "apart")
    alone = apart.obtain(ingestion.step({"name": "s", "path": str(path)}))
    assert (second.digest, second.report) == (alone.digest, alone.report)


def test_several_processes_make_the_same(ingestion, monkeypatch):
    path = settled(ingestion.write("a.jsonl", WHOLE))
    alone = ingestion.run(path)
    monkeypatch.setattr(full_shards, "processes_for", lambda *_: 2)
    apart = Store(ingestion.directory / "apart")
    try:
        beside = apart.obtain(ingestion.step({"name": "s", "path": str(path)}))
    finally:
        end_workers()
    assert (beside.digest, beside.report) == (alone.digest, alone.report)


def test_a_file_that_is_written_to_meanwhile_is_not_used(ingestion, used, monkeypatch):
    path = settled(ingestion.write("a.jsonl", WHOLE))
    content = path.read_bytes()
    make = full_shards.each

    def each(*given):
        path.write_bytes(content.replace(b'"n": 3,', b'"m": 3,'))
        make(*given)
        path.write_bytes(content)  # nothing but the file's times tells of it any more

    monkeypatch.setattr(full_shards, "each", each)
    artifact = ingestion.run(path)
    assert used == [0]
    assert ingestion.rows(artifact)[3]["raw"] == {"n": 3, "s": "x: y"}


def test_a_file_that_changes_meanwhile_is_an_error(ingestion, used, monkeypatch):
    path = settled(ingestion.write("a.jsonl", WHOLE))
    make = full_shards.each
    monkeypatch.setattr(
        full_shards, "each", lambda *given: (make(*given), os.truncate(path, len(WHOLE) - 9))
    )
    with pytest.raises(DataError, match="changed_during_read"):
        ingestion.run(path)
    assert used == [0]


@pytest.mark.usefixtures("used")
def test_a_build_that_dies_meanwhile_is_begun_again(ingestion, monkeypatch):
    path = settled(ingestion.write("a.jsonl", WHOLE))
    make = MakeShard.__call__

    def dies(self, span):
        make(self, span)
        if span.shards == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(MakeShard, "__call__", dies)
    with pytest.raises(KeyboardInterrupt):
        ingestion.run(path)
    monkeypatch.setattr(MakeShard, "__call__", make)
    os.truncate(path, path.stat().st_size - 20_000)  # and fewer shards than before are in it
    again = ingestion.run(settled(path))
    apart = Store(ingestion.directory / "apart")
    alone = apart.obtain(ingestion.step({"name": "s", "path": str(path)}))
    assert (again.digest, again.report) == (alone.digest, alone.report)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(3, 60), max_size=120), st.integers(1, 9), st.integers(20, 200))
def test_shards_end_where_the_writer_ends_them(tmp_path_factory, sizes, rows, size):
    with pytest.MonkeyPatch.context() as patch:
        for module in (shards, shard_writer, full_shards):
            for name, value in {
                "GROUP_ROWS": rows,
                "GROUP_BYTES": size,
                "FIRST_SHARD_ROWS": 3 * rows,
                "LEAST_SHARD_ROWS": 2 * rows,
                "SMALL_SHARD_ROWS": 1,
                "SHARD_BYTES": 4 * size,
            }.items():
                if hasattr(module, name):
                    patch.setattr(module, name, value)
        patch.setattr(full_shards, "PIECE_BYTES", 64)
        directory = tmp_path_factory.mktemp("x")
        raws = [b'"' + b"x" * (each - 2) + b'"' for each in sizes]
        path = directory / "a.jsonl"
        path.write_bytes(b"".join(raw + b"\n" for raw in raws))
        found = [span.told for span in spans(path, Past())]
        told: list[tuple[int, int, int]] = []
        with ShardWriter(
            lambda name: writing(directory / name),
            "x",
            "s",
            "f",
            ended=lambda *now: told.append(now),
        ) as writer:
            writer.extend([*range(1, len(raws) + 1)], raws)
        assert found == told
