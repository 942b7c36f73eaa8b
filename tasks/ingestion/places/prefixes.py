"""The digest of a file and of its prefixes: the SHA-256 of its pieces' SHA-256s.

    file      |  128 KiB  |  128 KiB  |  128 KiB  | rest |
    pieces          a           b           c        d         hashed side by side
    digest     SHA-256(a b c d)
    of a prefix that ends in c:  SHA-256(a b c'), for which a few bytes are read again

So several cores can hash one file, and whether a file still begins with the same bytes is known at
little cost. Of a large file that has changed, only new pieces are hashed (`known_pieces`).
"""

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

from tasks.artifact import file_digest, physical_cores, stamps, threaded_map
from tasks.artifact.digests import SMALL_FILE_BYTES
from tasks.artifact.stamps import Stamp
from tasks.artifact.threads import MOST_THREADS
from tasks.ingestion.places.known_pieces import SHA_BYTES, KnownPieces, shas_of

PIECE_BYTES = 2**17
STRETCH_PIECES = 32
"""Pieces that one thread hashes before it takes the next stretch."""


class PiecesHash:
    """Computes the digest of bytes that come one after the other."""

    def __init__(self, over: Any = None) -> None:
        """`over`: the hash over the SHA-256s of earlier pieces, to continue behind these."""
        self._over, self._piece, self._filled = over or hashlib.sha256(), hashlib.sha256(), 0

    def update(self, content: bytes | memoryview) -> None:
        """Adds bytes."""
        left = memoryview(content)
        while left:
            part = left[: PIECE_BYTES - self._filled]
            self._piece.update(part)
            self._filled += len(part)
            left = left[len(part) :]
            if self._filled == PIECE_BYTES:
                self._over.update(self._piece.digest())
                self._piece, self._filled = hashlib.sha256(), 0

    def copy(self) -> "PiecesHash":
        """An independent copy, which can be continued on its own."""
        other = PiecesHash(self._over.copy())
        other._piece, other._filled = self._piece.copy(), self._filled
        return other

    def hexdigest(self) -> str:
        """The digest of all bytes so far."""
        over = self._over.copy()
        if self._filled:
            over.update(self._piece.digest())
        return over.hexdigest()


def stamp(path: Path) -> Stamp:
    """The file's stamp, which changes when it is written to or replaced; empty if there is none."""
    try:
        return stamps.stamp(path)
    except OSError:
        return []


def hash_on(file: FileIO, state: PiecesHash, start: int, end: int) -> int:
    """Adds a file's bytes from `start` to `end` to a hash; returns the offset reached, which is
    less than `end` if the file is shorter."""
    file.seek(start)
    while start < end and (piece := file.read(min(PIECE_BYTES, end - start))):
        state.update(piece)
        start += len(piece)
    return start


def pieces_digest(path: Path) -> str:
    """The digest of a file's bytes; cached while the file does not change."""
    return file_digest(path, lambda path: _digest_of(_shas(path)), "pieces")


class Prefixes:
    """Digests of one file's prefixes; quick once `digest` has hashed its pieces."""

    def __init__(self) -> None:
        self._pieces = b""
        """The SHA-256s of all full pieces, 32 bytes each."""
        self._stamp: Stamp = []

    def digest(self, path: Path) -> str:
        """The digest of the file's bytes; if it has to read them, it keeps the pieces' SHA-256s."""
        return file_digest(path, self._read, "pieces")

    def _read(self, path: Path) -> str:
        self._stamp, size = stamp(path), path.stat().st_size
        known = KnownPieces(path, PIECE_BYTES) if size >= SMALL_FILE_BYTES else None
        pieces = _shas(path, known)
        self._pieces = pieces[: size // PIECE_BYTES * SHA_BYTES]
        return _digest_of(pieces)

    def at(self, path: Path, ends: Iterable[int]) -> dict[int, PiecesHash]:
        """Byte offset -> the state of the hash there, for each of `ends` within the file."""
        found: dict[int, PiecesHash] = {}
        state, done = PiecesHash(), 0
        over, used = hashlib.sha256(), 0
        known = self._pieces if stamp(path) == self._stamp else b""
        with path.open("rb", buffering=0) as file:
            for end in sorted({*ends}):
                whole = end // PIECE_BYTES
                before = whole * over.digest_size
                if done < whole * PIECE_BYTES and before <= len(known):
                    over.update(known[used:before])
                    used = before
                    state, done = PiecesHash(over.copy()), whole * PIECE_BYTES
                done = hash_on(file, state, done, end)
                if done < end:  # the file has become shorter
                    break
                found[end] = state.copy()
        return found


def _digest_of(pieces: bytes) -> str:
    return hashlib.sha256(pieces).hexdigest()


def _shas(path: Path, known: KnownPieces | None = None) -> bytes:
    """The SHA-256s of a file's pieces, end to end."""
    stretch = STRETCH_PIECES * PIECE_BYTES
    starts = range(0, path.stat().st_size + 1, stretch)  # one more where it ends with the file
    most = min(MOST_THREADS, physical_cores()) if len(starts) > 1 else 1
    entry = known.entry if known else _sha
    found = b"".join(threaded_map(partial(_entries, path, entry), starts, most))
    if known is None:
        return found
    known.note(found)
    return shas_of(found)


def _sha(_number: int, piece: memoryview) -> bytes:
    return hashlib.sha256(piece).digest()


def _entries(path: Path, entry: Callable[[int, memoryview], bytes], start: int) -> bytes:
    """The results of `entry` for the pieces of a stretch, end to end."""
    entries, buffer = list[bytes](), bytearray(PIECE_BYTES)
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while len(entries) < STRETCH_PIECES and (count := _read_full(file, buffer)):
            entries.append(entry(start // PIECE_BYTES + len(entries), memoryview(buffer)[:count]))
    return b"".join(entries)


def _read_full(file: FileIO, buffer: bytearray) -> int:
    """Reads until the buffer is full or the file ends; returns the number of bytes."""
    done = 0
    while done < len(buffer) and (count := file.readinto(memoryview(buffer)[done:])):
        done += count
    return done
