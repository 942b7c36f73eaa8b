"""A large file that has changed: the same digest as of a file never seen, and less to hash."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.ingestion.places import known_pieces, prefixes
from tasks.ingestion.places.prefixes import Prefixes, pieces_digest

PIECE = 64
CONTENT = bytes(range(256)) * 3


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where notes are kept; files of any size have some."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(prefixes, "SMALL_FILE_BYTES", 0)
    monkeypatch.setattr(prefixes, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(prefixes, "STRETCH_PIECES", 2)
    return tmp_path / "cache/reward-pipeline/pieces"


@pytest.fixture
def hashed(monkeypatch):
    """The pieces of which SHA-256 was made."""
    found = []

    class Hashlib:
        @staticmethod
        def sha256(content: bytes = b""):
            if isinstance(content, memoryview):  # a piece, and not notes
                found.append(bytes(content))
            return hashlib.sha256(content)

    monkeypatch.setattr(known_pieces, "hashlib", Hashlib)
    return found


def expected(content: bytes) -> str:
    pieces = [content[start : start + PIECE] for start in range(0, len(content), PIECE)]
    return hashlib.sha256(b"".join(hashlib.sha256(p).digest() for p in pieces)).hexdigest()


def test_only_pieces_that_are_new_are_hashed(tmp_path, cache, hashed):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(CONTENT + b"open")
    assert Prefixes().digest(path) == expected(CONTENT + b"open")
    assert len(hashed) == len(CONTENT) // PIECE + 1
    hashed.clear()
    path.write_bytes(CONTENT + b"open no more" + CONTENT)
    assert Prefixes().digest(path) == expected(CONTENT + b"open no more" + CONTENT)
    assert hashed == [
        (b"open no more" + CONTENT)[start : start + PIECE]
        for start in range(0, len(CONTENT) + 12, PIECE)
    ]
    hashed.clear()
    path.write_bytes(CONTENT[:PIECE] + b"x" + CONTENT[PIECE + 1 :])
    assert Prefixes().digest(path) == expected(CONTENT[:PIECE] + b"x" + CONTENT[PIECE + 1 :])
    assert hashed == [b"x" + CONTENT[PIECE + 1 : 2 * PIECE]]
    assert len([*cache.iterdir()]) == 1


def test_what_was_downloaded_is_hashed_whole(tmp_path, cache):
    """Who made it might know what it has to look like."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(CONTENT)
    assert pieces_digest(path) == expected(CONTENT)
    assert not cache.exists()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=4 * PIECE), min_size=2, max_size=4))
def test_whatever_a_file_held_before(tmp_path_factory, contents):
    directory = tmp_path_factory.mktemp("known")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(directory))
        patch.setattr(prefixes, "SMALL_FILE_BYTES", 0)
        patch.setattr(prefixes, "PIECE_BYTES", PIECE)
        for content in contents:
            (directory / "x").write_bytes(content)
            known = Prefixes()
            assert known.digest(directory / "x") == expected(content)
            states = known.at(directory / "x", range(len(content) + 1))
            assert {end: state.hexdigest() for end, state in states.items()} == {
                end: expected(content[:end]) for end in range(len(content) + 1)
            }


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "of another seed"])
def test_notes_that_are_not_as_they_were_written_are_not_believed(tmp_path, cache, hashed, damage):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(CONTENT)
    Prefixes().digest(path)
    (notes,) = cache.iterdir()
    content = bytearray(notes.read_bytes())
    if damage == "flipped":
        content[-1] ^= 1
    elif damage == "of another seed":
        content[content.index(b'"seed":') + len(b'"seed":')] ^= 1
    elif damage == "cut":
        content = content[:31]
    notes.write_bytes(content)
    if damage == "gone":
        notes.unlink()
    hashed.clear()
    path.write_bytes(CONTENT + b"more")
    assert Prefixes().digest(path) == expected(CONTENT + b"more")
    assert len(hashed) == len(CONTENT) // PIECE + 1


def test_a_cache_that_cannot_be_written_costs_time_alone(tmp_path, cache, hashed):
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the directory would be")
    path = tmp_path / "rows.jsonl"
    for content in (CONTENT, CONTENT + b"more"):
        path.write_bytes(content)
        assert Prefixes().digest(path) == expected(content)
    assert len(hashed) == 2 * len(CONTENT) // PIECE + 1


def test_notes_of_files_that_are_long_gone_are_removed(tmp_path, cache, monkeypatch):
    def noted(name: str) -> set[Path]:
        (tmp_path / name).write_bytes(CONTENT)
        Prefixes().digest(tmp_path / name)
        return {*cache.iterdir()}

    first = noted("a")
    assert first < (both := noted("b"))
    monkeypatch.setattr(known_pieces, "UNUSED_SECONDS", -60)
    left = noted("c")
    assert not left & both
