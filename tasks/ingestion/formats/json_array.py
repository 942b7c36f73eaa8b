"""JSON: one array of objects, split into its elements with only one of them in memory.

A `.json` file with one object per line is read as JSONL. The splitter only follows strings and
brackets; each element is then parsed on its own, so a bad element costs one row and not the file.
"""

import re
from collections.abc import Iterator
from itertools import chain

from tasks.errors import DataError, shown
from tasks.ingestion.formats.batches import (
    EXCERPT_BYTES,
    ROW_LIMIT_BYTES,
    BadRow,
    Batch,
    Origin,
    too_large,
)
from tasks.ingestion.formats.decompression import DamagedFile, pieces
from tasks.ingestion.formats.json_rows import MAX_DEPTH, is_object, sound_row
from tasks.ingestion.formats.jsonl import lines_as_rows
from tasks.ingestion.formats.lines import text_pieces

_SPACE = b" \t\r\n"
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_AT_TOP = re.compile(rb'["\[\]{},]')
_DEEPER = re.compile(rb'["\[\]{}]')


def read_json(origin: Origin) -> Iterator[Batch]:
    """The elements of a top-level array, numbered from 1.

    Raises:
        DataError: by its first line, the file is neither an array nor one object per line.
        DamagedFile: the array is not closed.
    """
    text = text_pieces(origin, pieces(origin))
    first = next((piece for piece in text if piece.strip(_SPACE)), b"")
    start = first.lstrip(_SPACE)
    if not start:
        return
    if start.startswith(b"["):
        yield from _elements(origin, chain([first], text))
        return
    head = [start, *_to_line_end(start, text)] if start.startswith(b"{") else []
    if not is_object(b"".join(head).split(b"\n", 1)[0]):
        limit = ROW_LIMIT_BYTES // 2**20
        raise DataError(
            f"{origin.name}: the top level starts with {shown(start[:20])}; expected an array of "
            f"objects, or one object of at most {limit} MB per line: export the rows as such"
        )
    yield from lines_as_rows(origin, chain([first], head[1:], text))


def _to_line_end(start: bytes, text: Iterator[bytes]) -> Iterator[bytes]:
    """The further pieces of the line that begins with `start`, up to the size of a row."""
    piece, size = start, len(start)
    while b"\n" not in piece and size <= ROW_LIMIT_BYTES and (piece := next(text, b"")):
        size += len(piece)
        yield piece


def _elements(origin: Origin, text: Iterator[bytes]) -> Iterator[Batch]:
    splitter = _Splitter(origin)
    row = 0
    for piece in text:
        elements = splitter.feed(piece)
        batch = Batch(read=len(elements))
        for row, (raw, size) in enumerate(elements, row + 1):  # noqa: B020 (continues the count)
            if size > ROW_LIMIT_BYTES:
                batch.bad.append(too_large(row, size, raw))
                continue
            sound, fault = sound_row(raw)
            if fault:
                batch.bad.append(BadRow(row, fault, raw))
            else:
                batch.rows.append(row)
                batch.raws.append(sound)
        yield batch
    if splitter.depth - 1 > MAX_DEPTH:
        raise DataError(
            f"{origin.name}: too_deep: element {row + 1} has more than {MAX_DEPTH} levels, and is "
            "not closed; expected an array of flat objects: write the file again"
        )
    if not splitter.closed:
        raise DamagedFile(
            f"{origin.name}: truncated_json: the array ends inside element {row + 1} or before its "
            "closing bracket; fetch or write the file again"
        )


class _Splitter:
    """Cuts a stream of bytes at the commas of its top-level array."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.depth = 0
        self.closed = False
        self._in_string = False
        self._carry = b""  # a backslash at the end of a piece, until the next piece comes
        self._held: list[bytes] = []
        self._size = 0
        self._count = 0

    def feed(self, piece: bytes) -> list[tuple[bytes, int]]:
        """The elements that end in this piece: `(bytes, or an excerpt; full size)`."""
        piece = self._carry + piece
        self._carry = b""
        done: list[tuple[bytes, int]] = []
        position = start = 0
        while not self.closed:
            if self._in_string:
                position = self._string_end(piece, position)
                if self._in_string:
                    piece = piece[:position]
                    break
            pattern = _AT_TOP if self.depth == 1 else _DEEPER
            match = pattern.search(piece, position)
            if match is None:
                break
            position = match.end()
            mark = match[0]
            if mark == b'"':
                self._in_string = True
            elif mark in b"[{":
                self.depth += 1
                start = position if self.depth == 1 else start
            elif mark == b",":
                done.append(self._finish(piece[start : position - 1]))
                start = position
            else:
                self.depth -= 1
                if self.depth == 0:
                    self.closed = True
                    done += self._last(piece[start : position - 1])
                    start = position
        if self.closed:
            self._check_rest(piece[start:])
        else:
            self._hold(piece[start:])
        return done

    def _string_end(self, piece: bytes, position: int) -> int:
        match = _IN_STRING.match(piece, position)
        assert match is not None
        end = match.end()
        if end == len(piece):
            return end
        if piece[end : end + 1] == b"\\":
            self._carry = piece[end:]
            return end
        self._in_string = False
        return end + 1

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        self._held.append(part)
        if self._size > ROW_LIMIT_BYTES:
            self._held = [b"".join(self._held[:1])[:EXCERPT_BYTES]]

    def _finish(self, end: bytes) -> tuple[bytes, int]:
        self._hold(end)
        raw, size = b"".join(self._held).strip(_SPACE), self._size
        self._held, self._size = [], 0
        self._count += 1
        return raw, size

    def _last(self, end: bytes) -> list[tuple[bytes, int]]:
        """The element before the closing bracket; none in `[]`."""
        raw, size = self._finish(end)
        if not raw and self._count > 1:
            self.origin.warn(f"{self.origin.name}: a comma before the closing bracket was ignored")
        return [(raw, size)] if raw else []

    def _check_rest(self, rest: bytes) -> None:
        if rest.strip(_SPACE):
            found = shown(rest.strip(_SPACE)[:40])
            raise DataError(
                f"{self.origin.name}: {found} follows the closing bracket of the array; expected "
                "nothing: keep one array per file"
            )
