"""A cache of the SHA-256s of a file's pieces: only pieces with another XXH3 are hashed again.

    pieces      |   a   |   b   |   c   | d |         noted: XXH3 and SHA-256 of each
    grown       |   a   |   b   |   c   |   d   | e   XXH3 of all, SHA-256 of the last two

XXH3 is as fast as reading, SHA-256 four times as slow. Two pieces have the same 128-bit XXH3 by
chance once in 2^128, and the seed is random for every file, so nobody can construct such pieces.
Losing the notes only costs time.

    <cache>/pieces/<digest of the path>     {seed, entries}, as `notes` writes it: XXH3 (16 bytes)
                                            and SHA-256 (32) of every piece, in hex
"""

import hashlib
import secrets
import time
from contextlib import suppress
from pathlib import Path

import xxhash

from tasks.artifact import digest_json
from tasks.artifact.digests import cache_directory
from tasks.artifact.notes import read_note, write_note

SHA_BYTES, FAST_BYTES = 32, 16
ENTRY_BYTES = FAST_BYTES + SHA_BYTES
UNUSED_SECONDS = 90 * 86_400
"""After which the notes of a file are removed."""


class KnownPieces:
    """The notes on one file; empty where there are none, or they are damaged."""

    def __init__(self, path: Path, piece_bytes: int) -> None:
        name = digest_json([str(path.resolve()), piece_bytes])
        self._place = cache_directory() / "pieces" / name
        self._seed, self._entries = secrets.randbits(64), b""
        with suppress(OSError):
            if noted := read_note(self._place):
                self._seed, self._entries = noted["seed"], bytes.fromhex(noted["entries"])

    def entry(self, number: int, piece: memoryview) -> bytes:
        """XXH3 and SHA-256 of the piece `number`; the SHA-256 is taken from the notes if the XXH3
        is the same."""
        noted = self._entries[number * ENTRY_BYTES : (number + 1) * ENTRY_BYTES]
        fast = xxhash.xxh3_128_digest(piece, self._seed)
        return noted if noted[:FAST_BYTES] == fast else fast + hashlib.sha256(piece).digest()

    def note(self, entries: bytes) -> None:
        """Saves the entries of all pieces for the next time."""
        if entries == self._entries:
            return
        with suppress(OSError):  # an unwritable home is no failure
            write_note(self._place, {"seed": self._seed, "entries": entries.hex()})
            for other in self._place.parent.iterdir():
                if other.stat().st_mtime < time.time() - UNUSED_SECONDS:
                    other.unlink()


def shas_of(entries: bytes) -> bytes:
    """The SHA-256s of entries, end to end."""
    starts = range(0, len(entries), ENTRY_BYTES)
    return b"".join(entries[start + FAST_BYTES : start + ENTRY_BYTES] for start in starts)
