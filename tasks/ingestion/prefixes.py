"""SHA-256 of a file, and of any of its beginnings, in one pass over it.

    hashed once   |-------|-------|-------|-------|---|    states of the hash, every so many bytes
    asked later        ^                      ^            from the state before: a few bytes

So whether a file still begins as it once did costs next to nothing beside its digest.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from typing import Any

from tasks.artifact import file_digest
from tasks.artifact.stamps import Stamp
from tasks.artifact.stamps import stamp as stamp_of

EVERY_BYTES = 2**16
MOST_STATES = 2**12
"""A file with more of them gets every second one only, and so on: what bounds memory."""


def stamp(path: Path) -> Stamp:
    """What differs once a file has been written to, or is another one; empty where it is gone."""
    try:
        return stamp_of(path)
    except OSError:
        return []


def hash_on(file: FileIO, state: Any, start: int, end: int) -> int:
    """Takes a file's bytes from `start` to `end` into a hash; up to where it has them."""
    file.seek(start)
    while start < end and (piece := file.read(min(EVERY_BYTES, end - start))):
        state.update(piece)
        start += len(piece)
    return start


class Prefixes:
    """States of the hash over one file; at first that of no byte alone."""

    def __init__(self) -> None:
        self._ends: list[int] = [0]
        self._states: list[Any] = [hashlib.sha256()]
        self._stamp: Stamp = []

    def digest(self, path: Path) -> str:
        """SHA-256 (hex) of the file's bytes; where they have to be read for it, states are kept."""
        return file_digest(path, self._read)

    def _read(self, path: Path) -> str:
        ends, states, every = [0], [hashlib.sha256()], EVERY_BYTES
        state, end = hashlib.sha256(), 0
        self._stamp = stamp(path)
        buffer = bytearray(EVERY_BYTES)
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                state.update(memoryview(buffer)[:count])
                end += count
                if end - ends[-1] >= every:
                    ends.append(end)
                    states.append(state.copy())
                if len(ends) > MOST_STATES:
                    ends, states, every = ends[::2], states[::2], 2 * every
        self._ends, self._states = ends, states
        return state.hexdigest()

    def at(self, path: Path, ends: Iterable[int]) -> dict[int, Any]:
        """The state of the hash behind each of these bytes that the file has."""
        found: dict[int, Any] = {}
        last = 0
        known = len(self._ends) if stamp(path) == self._stamp else 1
        with path.open("rb", buffering=0) as file:
            for end in sorted({*ends}):
                nearest = bisect_right(self._ends, end, hi=known) - 1
                start, state = self._ends[nearest], self._states[nearest]
                if last > start:
                    start, state = last, found[last]
                state = state.copy()
                if hash_on(file, state, start, end) < end:  # the file has become shorter
                    break
                found[end], last = state, end
        return found
