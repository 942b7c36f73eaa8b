"""The lines of a stream of bytes, each with its number, in bounded memory.

Lines end at b"\\n" only: U+2028, U+0085 and their like are text. If the first piece has b"\\r" and
no b"\\n", lines end at b"\\r". A file with both kinds is detected by the readers (`parts`). Of a
line longer than `ROW_LIMIT_BYTES`, that many bytes and a piece are held.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tasks.errors import DataError, shown
from tasks.ingestion.formats.batches import ROW_LIMIT_BYTES, Origin
from tasks.ingestion.formats.impostors import HEAD_BYTES, check_is_text

BOM = b"\xef\xbb\xbf"
_WIDE = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_HEAD_BYTES = 64
"""Bytes by which an encoding without a byte order mark is recognised."""
_LONE_RETURN = re.compile(rb"\r[^\r\n]")
_BETWEEN_ENDS = re.compile(rb"[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines without their ends. `oversized`: index of a line of which only the
    beginning is held -> its full size."""

    first: int
    """Number of the first line, from 1."""
    lines: list[bytes]
    oversized: dict[int, int] = field(default_factory=dict[int, int])


def text_pieces(origin: Origin, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes without a byte order mark.

    Raises:
        DataError: the first bytes are UTF-16 or UTF-32, or not text at all.
    """
    first = b""  # a compressed file may give its first bytes one by one
    while len(first) < HEAD_BYTES and (piece := next(pieces, b"")):
        first += piece
    check_is_text(origin, first[:HEAD_BYTES])
    encoding = next((name for mark, name in _WIDE if first.startswith(mark)), "")
    if not encoding and (head := first[:_HEAD_BYTES]).count(0) >= max(2, len(head) // 4):
        encoding = "utf-16 or utf-32 without a byte order mark"
    if encoding:
        raise DataError(
            f"{origin.name}: encoding={encoding} detected (starts with {shown(first[:8])}); "
            "expected UTF-8: convert it, for example with iconv -t UTF-8"
        )
    if first := first.removeprefix(BOM):
        yield first
    yield from pieces


def unmarked(origin: Origin, row: int, line: bytes) -> bytes:
    """The line without a byte order mark, which a file appended to another one leaves inside."""
    if not line.startswith(BOM):
        return line
    origin.warn(f"{origin.name} line {row}: a byte order mark inside the file was removed")
    return line[len(BOM) :]


def blocks(pieces: Iterator[bytes], first: int = 1) -> Iterator[Block]:
    """The lines in blocks; a last line without an end counts, an empty one does not.

    `first` is the number of the first line: above 1 if the pieces begin within a file.
    """
    separator = b"\n"
    number = first
    held: list[bytes] = []  # of the open line; its beginning once it is oversized
    size = 0
    for piece in pieces:
        if number == 1 and not size and b"\n" not in piece and _LONE_RETURN.search(piece):
            separator = b"\r"
        lines = piece.split(separator)
        open_end = lines.pop()
        if lines:
            held, size = _held(held, size, lines[0])
            lines[0] = b"".join(held)
            yield Block(number, lines, {0: size} if size > ROW_LIMIT_BYTES else {})
            number += len(lines)
            held, size = [], 0
        held, size = _held(held, size, open_end)
    if size:
        yield Block(number, [b"".join(held)], {0: size} if size > ROW_LIMIT_BYTES else {})


def _held(held: list[bytes], size: int, more: bytes) -> tuple[list[bytes], int]:
    """The open line with `more` bytes, which are not held if it is oversized, and its full size."""
    keep = more and size <= ROW_LIMIT_BYTES
    return ([*held, more] if keep else held), size + len(more)


def parts(line: bytes) -> Iterator[bytes]:
    """The parts of a line between line ends of any kind."""
    return (found[0] for found in _BETWEEN_ENDS.finditer(line))


def mixed_ends(origin: Origin, row: int) -> DataError:
    """The error of a line that holds several rows."""
    return DataError(
        f"{origin.name} line {row}: several rows stand in it: line ends are mixed, CR and LF; "
        "expected one kind in the whole file: write all as LF, for example with "
        "tr '\\r' '\\n' < old > new"
    )
