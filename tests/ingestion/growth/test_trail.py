"""The bytes that are read are the bytes that were hashed, and are hashed once."""

import hashlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.artifact import Memo, Store, Workspace, file_digest
from tasks.errors import DataError
from tasks.ingestion import row_shards, shards, unit
from tasks.ingestion.growth.appended import FinishedPart
from tasks.ingestion.growth.marks import Mark, small_marks
from tasks.ingestion.growth.trail import Trail
from tasks.ingestion.params import Source
from tasks.ingestion.places import prefixes
from tasks.ingestion.places.local_files import match_files
from tasks.ingestion.places.prefixes import Prefixes
from tasks.ingestion.unit import ingest_file

CONTENT = bytes(range(256)) * 100


def _digest(content: bytes) -> str:
    """As `prefixes` says that it is made."""
    size = prefixes.PIECE_BYTES
    starts = range(0, len(content), size)
    pieces = [hashlib.sha256(content[start : start + size]).digest() for start in starts]
    return hashlib.sha256(b"".join(pieces)).hexdigest()


@pytest.mark.parametrize(("size", "pieces"), [(2**18, 16), (100, 16), (100, 3), (7, 1), (256, 50)])
def test_the_hash_of_every_beginning_is_that_of_its_bytes(tmp_path, monkeypatch, size, pieces):
    monkeypatch.setattr(prefixes, "PIECE_BYTES", size)
    monkeypatch.setattr(prefixes, "STRETCH_PIECES", pieces)
    path = tmp_path / "x"
    path.write_bytes(CONTENT)
    ends = [0, 1, 99, 100, 101, 5000, 5001, len(CONTENT) - 1, len(CONTENT)]
    hashed, fresh = Prefixes(), Prefixes()
    assert hashed.digest(path) == _digest(CONTENT)
    for known in (hashed, fresh):
        found = known.at(path, reversed(ends))
        assert {end: state.hexdigest() for end, state in found.items()} == {
            end: _digest(CONTENT[:end]) for end in ends
        }


def test_a_files_digest_is_as_documented_and_another_one_than_its_digest(tmp_path):
    """The two of one large file stand in one cache, each under its own name."""
    path = tmp_path / "x"
    path.write_bytes(CONTENT * 1000)  # more than is hashed each time
    os.utime(path, (0, 0))
    time.sleep(2.1)  # until the file counts as settled
    for _ in range(2):
        assert file_digest(path) == hashlib.sha256(CONTENT * 1000).hexdigest()
        assert Prefixes().digest(path) == _digest(CONTENT * 1000)
    empty = tmp_path / "empty"
    empty.touch()
    assert Prefixes().digest(empty) == hashlib.sha256(b"").hexdigest()


def test_only_what_a_file_has_is_told_whether_it_has_become_shorter_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(prefixes, "PIECE_BYTES", 100)
    path = tmp_path / "x"
    path.write_bytes(CONTENT + b"rest")
    known = Prefixes()
    known.digest(path)
    assert {*known.at(path, [5, 25_604, 25_605])} == {5, 25_604}
    assert known.at(path, [25_700]) == {}
    path.write_bytes(CONTENT[:110])
    assert {*known.at(path, [5, 100, 110, 111, 20_000])} == {5, 100, 110}


def test_states_of_a_file_that_has_been_written_to_since_are_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(prefixes, "PIECE_BYTES", 100)
    path = tmp_path / "x"
    path.write_bytes(CONTENT)
    os.utime(path, (0, 0))
    known = Prefixes()
    known.digest(path)
    path.write_bytes(CONTENT[::-1])
    assert known.at(path, [20_000])[20_000].hexdigest() == _digest(CONTENT[::-1][:20_000])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=6), min_size=1, max_size=9), st.data())
def test_a_mark_holds_the_bytes_up_to_its_line_and_their_hash(lines, data):
    """Wherever the pieces end, and however many marks are in one of them."""
    lines = [line.replace(b"\n", b"") + b"\n" for line in lines]
    content = b"".join(lines)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(content)), max_size=4)) | {len(content)})
    ends = data.draw(st.sets(st.integers(1, len(lines))))
    with Trail(FinishedPart()) as trail:
        start = line = 0
        for cut in cuts:
            trail.follow(content[start:cut])
            start, before, line = cut, line, content[:cut].count(b"\n")
            for end in range(before + 1, line + 1):
                if end in ends:
                    trail.mark(end, end, end)
        marks = trail.with_end(99, 99, line)
    expected = [(end, b"".join(lines[:end])) for end in sorted(ends)]
    assert marks == [
        *(Mark(end, end, end, len(bytes_), _digest(bytes_)) for end, bytes_ in expected),
        Mark(99, 99, len(lines), len(content), _digest(content)),
    ]


ROWS = b"".join(b'{"n":%7d}\n' % n for n in range(300_000))
"""Some pieces."""


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (0, b"nope"),
        (-20, b'{"n":      0'),
        (-20, b"nope"),
        (len(ROWS), b'{"n":1}\n'),
        (len(ROWS), b"nope"),
    ],
)
@pytest.mark.catalogue(46)
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, place, change):
    """Behind the reader or before it, whether what comes in is sound or not."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(ROWS)
    os.utime(path, (0, 0))
    source = Source(name="s", path=str(path))
    [file] = match_files(source)
    workspace = Workspace(tmp_path / "work", 0)

    def advance(count: int) -> None:
        if count:
            with path.open("r+b") as stream:
                stream.seek(place % (len(ROWS) + 1))
                stream.write(change)

    with pytest.raises(DataError, match="changed_during_read"):
        ingest_file(workspace, "u", source, file, None, advance, Memo(workspace, {}))


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(ROWS[::-1])])
def test_a_file_that_changes_once_it_is_read_has_no_marks_and_is_refused(
    tmp_path, monkeypatch, change
):
    path = tmp_path / "x.jsonl"
    path.write_bytes(ROWS[: 14 * 12_000])
    [file] = match_files(Source(name="s", path=str(path)))
    workspace = Workspace(tmp_path / "work", 0)
    asked = []

    def late(*told):
        change(path)
        asked.append(told)
        asked.append(small_marks(*told))
        return asked[-1]

    monkeypatch.setattr(unit, "small_marks", late)
    source = Source(name="s", path=str(path))
    with pytest.raises(DataError, match="changed_during_read"):
        ingest_file(workspace, "u", source, file, None, lambda _: None, Memo(workspace, {}))
    assert len(asked[0][3]) == 2  # small shards that might have been marked
    assert asked[1:] in ([], [[]])


@pytest.mark.parametrize("behind", ["", "\n", "bad\n\n"])
@pytest.mark.parametrize("rows", [3, 4, 5, 6, 7])
def test_a_shard_that_was_the_last_one_grows_with_the_file(ingestion, monkeypatch, behind, rows):
    """Its last row group was cut short by the file's end: that end is no shard's."""
    monkeypatch.setattr(shards, "GROUP_ROWS", 3)
    monkeypatch.setattr(shards, "FIRST_SHARD_ROWS", 4)
    path = ingestion.write("x.jsonl", '{"n":1}\n' * rows + behind)
    ingestion.run(path)
    path.write_text('{"n":1}\n' * rows + behind + '{"n":2}\n' * 5)
    again = ingestion.run(path)
    alone = Store(ingestion.directory / "apart").obtain(
        ingestion.step({"name": "s", "path": str(path)})
    )
    assert (again.digest, again.report) == (alone.digest, alone.report)
    assert len(row_shards(again)) == len(row_shards(alone))
