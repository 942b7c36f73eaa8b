"""The lines of a CSV file for the csv module, with the record that they belong to."""

from collections import deque
from collections.abc import Iterator
from itertools import count, islice

from tasks.errors import DataError
from tasks.ingestion.formats.batches import ROW_LIMIT_BYTES, BadRow, Origin, too_large
from tasks.ingestion.formats.lines import Block, unmarked

OR_UNQUOTED = ", or set quotes: false on the source where they enclose nothing"


class Oversized(Exception):
    """A physical line is longer than `ROW_LIMIT_BYTES`."""


class RecordLines:
    """Iterates over lines for the csv module; keeps those of the current record.

    The caller sets `at_start` before each record.
    """

    def __init__(self, origin: Origin, source: Iterator[Block]) -> None:
        self.origin = origin
        self.row = 0
        """Number of the line on which the record starts."""
        self.at_start = True
        self.oversized: BadRow | None = None
        self.held: list[bytes] = []
        self._size = 0
        self._numbered = (
            (block.first + i, line, block.oversized.get(i))
            for block in source
            for i, line in enumerate(block.lines)
        )
        self._ahead: deque[tuple[int, bytes, int | None]] = deque()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, line, full_size = self._ahead.popleft() if self._ahead else next(self._numbered)
        if self.at_start:
            self.at_start, self.row, self._size, self.held = False, number, 0, []
            line = unmarked(self.origin, number, line)
        self.held.append(line)
        if full_size is not None:
            self.oversized = too_large(self.row, full_size, line)
            raise Oversized
        self._size += len(line) + 1
        if self._size > ROW_LIMIT_BYTES:
            raise unclosed(self.origin, self.row)
        return _text(line)

    def ahead(self) -> Iterator[str]:
        """The lines after the record's so far, without consuming them, up to the size of a
        record."""
        size = self._size
        for index in count():
            if index == len(self._ahead):
                self._ahead.extend(islice(self._numbered, 1))
            if index == len(self._ahead):
                return
            _, line, full_size = self._ahead[index]
            size += len(line) + 1
            if full_size is not None or size > ROW_LIMIT_BYTES:
                return
            yield _text(line)

    def take(self, lines: int) -> int:
        """Adds so many lines of `ahead` to the record; returns the number of the last one."""
        added = [self._ahead.popleft() for _ in range(lines)]
        self.held += [line for _, line, _ in added]
        return added[-1][0]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape") + "\n"


def unclosed(origin: Origin, row: int) -> DataError:
    """The error of a record with a quoted cell that is not closed."""
    limit = ROW_LIMIT_BYTES // 2**20
    return DataError(
        f"{origin.name} line {row}: a quoted cell of the record that starts here is not closed "
        f"within {limit} MB or before the end of the file; close it, and write a quote inside a "
        f"cell as two{OR_UNQUOTED}"
    )
