"""Memory is given back where there is some."""

from mmap import ACCESS_READ, mmap

import pytest

from tasks.artifact import memory

MIB = 2**20


@pytest.fixture
def trimmed(monkeypatch):
    """How often the C library was asked; nothing has been given back before."""
    calls: list[int] = []

    class Library:
        def __init__(self, _name):
            pass

        def malloc_trim(self, _pad):
            calls.append(1)

    monkeypatch.setattr(memory.ctypes, "CDLL", Library)
    monkeypatch.setattr(memory, "_left", 0)
    return calls


def test_only_a_process_that_has_grown_gives_memory_back(trimmed, monkeypatch):
    """Since the last time that it did, not since the last time that it was asked."""
    counts = []
    for resident in (200, 210, 300, 327, 329, 400, 100, 500):
        monkeypatch.setattr(memory, "_resident", lambda size=resident: size * MIB)
        memory.give_memory_back()
        counts.append(len(trimmed))
    assert counts == [1, 1, 1, 1, 2, 2, 2, 3]


def test_where_the_system_does_not_tell_it_is_given_back_each_time(trimmed, monkeypatch):
    monkeypatch.setattr(memory, "_resident", lambda: 0)
    for _ in range(3):
        memory.give_memory_back()
    assert len(trimmed) == 3


def test_the_system_tells_what_a_process_has_but_not_files_that_it_has_mapped(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (64 * MIB))
    before = memory._resident()
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
        assert mapped[:: 2**12].count(b"x") == 64 * MIB // 2**12
        assert memory._resident() - before < 16 * MIB
        held = bytes(mapped)
        assert memory._resident() - before > 60 * MIB
    assert len(held) == 64 * MIB
