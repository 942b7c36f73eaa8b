"""Full shards made side by side: the same artifact as by reading line by line."""

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.artifact import Store, Workspace, each, pool
from tasks.artifact.durable import writing
from tasks.errors import ArtifactError, DataError
from tasks.ingestion import row_groups, shard_writer, shards, unit
from tasks.ingestion.growth import full_shards, marks
from tasks.ingestion.growth import spans as spans_module
from tasks.ingestion.growth.appended import FinishedPart
from tasks.ingestion.growth.full_shards import MakeShard
from tasks.ingestion.growth.spans import Span, spans
from tasks.ingestion.shard_writer import ShardWriter
from tests.ingestion.growth.test_appended import BAD, FULL, lines, nodes


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
    "one line end of two bytes": (
        WHOLE.replace('12345, "s": "x: y"}', '12345, "s": "x: y"}\r'),
        FULL,
    ),
    "carriage returns": (WHOLE.replace("\n", "\r\n"), FULL),
    "carriage returns in large rows": (LARGE.replace("\n", "\r\n"), 0),  # they look longer
    "line breaks that are text": (WHOLE.replace("x: y", "x\u2028\u0085y"), FULL),
}


@pytest.fixture
def used(monkeypatch) -> list[int]:
    """Two processes are said to pay, but this one does it all; how many shards of each file that is
    read were made so, and used."""
    counts: list[int] = []
    made = unit.part_by_processes

    def part_by_processes(*given):
        found = made(*given)
        counts.append(len(found.marks) - len(given[4].marks))
        return found

    monkeypatch.setattr(unit, "part_by_processes", part_by_processes)
    monkeypatch.setattr(full_shards, "_processes", lambda *_: 2)
    monkeypatch.setattr(full_shards, "each", lambda make, some, *_, **__: [*map(make, some)])
    return counts


def settled(path):
    """Waits until a change of the file would show."""
    while path.stat().st_ctime_ns > time.time_ns() - full_shards.TICK_NANOSECONDS:
        time.sleep(0.005)
    return path


def assert_as_from_scratch(artifact, ingestion, path):
    apart = Store(ingestion.directory / "apart")
    alone = apart.obtain(ingestion.step({"name": "s", "path": str(path)}))
    assert (artifact.digest, artifact.report) == (alone.digest, alone.report)


@pytest.mark.parametrize("name", FILES)
def test_whatever_the_lines_the_artifact_is_the_same(ingestion, used, monkeypatch, name):
    content, full = FILES[name]
    path = settled(ingestion.write("a.jsonl", content))
    beside = ingestion.run(path)
    assert used == [full]
    monkeypatch.undo()
    assert_as_from_scratch(beside, ingestion, path)


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
    assert_as_from_scratch(second, ingestion, path)


@pytest.fixture
def helped(monkeypatch):
    """Another process helps, and is ready when the shards are given out."""

    def ready_each(*given, **more):
        pool.begin(1)
        while not pool.ready():
            time.sleep(0.01)
        each(*given, **more)

    monkeypatch.setattr(full_shards, "_processes", lambda *_: 2)
    monkeypatch.setattr(full_shards, "each", ready_each)
    yield
    pool.end()


@pytest.mark.usefixtures("helped")
def test_several_processes_make_the_same(ingestion, monkeypatch):
    path = settled(ingestion.write("a.jsonl", sound(0, 60_000)))
    here: list[int] = []
    make = MakeShard.__call__

    def made_here(work, span):
        make(work, span)
        here.append(span.shards)
        deadline = time.monotonic() + 60  # the other process may be slow to begin
        while len(here) == 1 and time.monotonic() < deadline:
            made = (work.workspace.path / work.directory).glob("[0-9]*.parquet")
            if {int(path.stem) for path in made} - {*here}:
                break
            time.sleep(0.01)

    monkeypatch.setattr(MakeShard, "__call__", made_here)
    beside = ingestion.run(path)
    assert 0 < len(here) < len([*spans(path, FinishedPart())])
    monkeypatch.undo()
    assert_as_from_scratch(beside, ingestion, path)


def test_where_another_process_is_killed_this_one_goes_on_alone(
    ingestion, used, monkeypatch, caplog
):
    path = settled(ingestion.write("a.jsonl", WHOLE))
    make = full_shards.each

    def killed(*given, **more):
        make(*given, **more)
        raise ArtifactError("a worker process was killed")

    monkeypatch.setattr(full_shards, "each", killed)
    beside = ingestion.run(path)
    assert used == [0]
    assert "read by one process, line by line: a worker process was killed" in caplog.text
    monkeypatch.undo()
    assert_as_from_scratch(beside, ingestion, path)


def test_a_file_that_is_written_to_meanwhile_is_not_used(ingestion, used, monkeypatch):
    path = settled(ingestion.write("a.jsonl", WHOLE))
    content = path.read_bytes()
    make = full_shards.each

    def meanwhile(*given, **more):
        path.write_bytes(content.replace(b'"n": 3,', b'"m": 3,'))
        make(*given, **more)
        path.write_bytes(content)  # nothing but the file's times tells of it any more

    monkeypatch.setattr(full_shards, "each", meanwhile)
    artifact = ingestion.run(path)
    assert used == [0]
    assert ingestion.rows(artifact)[3]["raw"] == {"n": 3, "s": "x: y"}


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("change", [lambda path: os.truncate(path, len(WHOLE) - 9), os.unlink])
def test_a_file_that_changes_meanwhile_is_an_error(ingestion, monkeypatch, change, first):
    path = settled(ingestion.write("a.jsonl", WHOLE))
    make = full_shards.each

    def meanwhile(*given, **more):
        calls = [lambda: change(path), lambda: make(*given, **more)]
        for call in calls if first else reversed(calls):
            call()

    monkeypatch.setattr(full_shards, "each", meanwhile)
    with pytest.raises(DataError, match="changed_during_read"):
        ingestion.run(path)


@pytest.mark.usefixtures("used")
def test_a_file_that_is_another_one_while_its_past_is_looked_for_is_an_error(
    ingestion, monkeypatch
):
    path = settled(ingestion.write("a.jsonl", WHOLE))
    ingestion.run(path)
    before = path.read_bytes()
    other = before.replace(b'"n": 3,', b'"m": 3,') + sound(0, 9_000).encode()
    path.write_bytes(other)
    step = ingestion.step({"name": "s", "path": str(settled(path))})
    reused_part = unit.reused_part

    def looks_at_another(*given):
        path.write_bytes(before + other[len(before) :])
        found = reused_part(*given)
        path.write_bytes(other)
        settled(path)
        return found

    monkeypatch.setattr(unit, "reused_part", looks_at_another)
    with pytest.raises(DataError, match="changed_during_read"):
        ingestion.store.obtain(step)


def test_a_file_that_goes_before_its_past_is_looked_for_is_an_error(ingestion, monkeypatch):
    path = ingestion.write("a.jsonl", WHOLE)
    ingestion.run(path)
    path.write_bytes(path.read_bytes() + sound(0, 1).encode())
    reused_part = unit.reused_part

    def goes_before(*given):
        path.unlink()
        return reused_part(*given)

    monkeypatch.setattr(unit, "reused_part", goes_before)
    with pytest.raises(DataError, match="changed_during_read"):
        ingestion.run(path)


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
    assert [*ingestion.directory.glob("store/.work/*/scratch/*/00002.parquet")]
    monkeypatch.setattr(full_shards, "_processes", lambda *_: 1)
    again = ingestion.run(path)
    assert_as_from_scratch(again, ingestion, path)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(3, 60), max_size=120), st.integers(1, 9), st.integers(20, 200))
def test_shards_end_where_the_writer_ends_them(tmp_path_factory, sizes, rows, size):
    with pytest.MonkeyPatch.context() as patch:
        for module in (shards, shard_writer, row_groups, spans_module):
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
        patch.setattr(marks, "PIECE_BYTES", 64)
        directory = tmp_path_factory.mktemp("x")
        raws = [b'"' + b"x" * (each - 2) + b'"' for each in sizes]
        path = directory / "a.jsonl"
        path.write_bytes(b"".join(raw + b"\n" for raw in raws))
        found = [span.shard_end for span in spans(path, FinishedPart())]
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


def test_a_span_that_ends_too_early_touches_no_other_shard(ingestion):
    """Its lines end in two bytes, so it was taken for longer than it is; a large one follows."""
    rows = [f'{{"n":"{"x" * 2089}"}}' for _ in range(4_000)] + [f'{{"n":"{"x" * (2**25 - 8)}"}}']
    path = ingestion.write("a.jsonl", "\r\n".join(rows) + "\r\n")
    workspace = Workspace(ingestion.directory / "work", -1)
    make = MakeShard(workspace, "x", "s", "a.jsonl", path)
    other = workspace.path / "x/00003.parquet.tmp"
    other.parent.mkdir(parents=True)
    other.touch()
    span = Span(2, 14_000, 14_000, 0, path.stat().st_size, len(rows))
    make(span)
    assert [each.name for each in other.parent.iterdir()] == [other.name]
