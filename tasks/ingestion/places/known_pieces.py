"""Pieces of a file that were hashed before: SHA-256 is made only of those whose XXH3 is another.

    pieces      |   a   |   b   |   c   | d |         noted: XXH3 and SHA-256 of each
    grown       |   a   |   b   |   c   |   d   | e   XXH3 of all, SHA-256 of the last two

XXH3 comes as fast as the bytes do, SHA-256 a fourth as fast. Two pieces have the same XXH3 of 128
bits by chance once in 2^128; and as its seed is drawn for every file, nobody can tell which do.
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
    """What is noted of one file; nothing where there are no sound notes."""

    def __init__(self, path: Path, piece_bytes: int) -> None:
        name = digest_json([str(path.resolve()), piece_bytes])
        self._place = cache_directory() / "pieces" / name
        self._seed, self._entries = secrets.randbits(64), b""
        with suppress(OSError):
            if noted := read_note(self._place):
                self._seed, self._entries = noted["seed"], bytes.fromhex(noted["entries"])

    def entry(self, number: int, piece: memoryview) -> bytes:
        """XXH3 and SHA-256 of the file's piece of this number: from the notes, or made."""
        noted = self._entries[number * ENTRY_BYTES : (number + 1) * ENTRY_BYTES]
        fast = xxhash.xxh3_128_digest(piece, self._seed)
        return noted if noted[:FAST_BYTES] == fast else fast + hashlib.sha256(piece).digest()

    def note(self, entries: bytes) -> None:
        """Notes the entries of all pieces for the next time."""
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
