"""Finds the end of a CSV record that the csv module refuses because of quotes in its cells.

Under three names:
"print \\"hi\\"?","use:          the record begins here,
puts,printf,write              goes on within an open cell (this line is no row),
or cout",no                    and ends here

7,"a 5" pipe",y                a record of one line: three cells, none of them open
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from tasks.errors import DataError
from tasks.ingestion.formats.batches import BadRow
from tasks.ingestion.formats.record_lines import OR_UNQUOTED, RecordLines

_ESCAPED = re.compile(r"\\.", re.DOTALL)


def complete_record(lines: RecordLines, header: list[str], bad: BadRow) -> BadRow:
    """The refused record with all its lines, so that none of them is read as a row.

    Raises:
        DataError: its end is ambiguous.
    """
    if bad.fault.reason != "csv_quote" or not lines.origin.quotes:
        return bad
    text = "\n".join(line.decode("utf-8", "surrogateescape") for line in lines.held)
    behind = _lines_behind(text, lines.ahead(), len(header), lines.origin.delimiter)
    if behind is None:
        raise DataError(
            f"{lines.origin.name} line {bad.row}: by its quotes, a cell of the record that starts "
            "here may go on in the next lines, and where it ends cannot be told from them; write "
            f"a quote inside a cell as two{OR_UNQUOTED}"
        )
    if not behind:
        return bad
    message = f"{bad.fault.message}; by its quotes, the record goes on to line {lines.take(behind)}"
    return replace(bad, fault=replace(bad.fault, message=message), raw=b"\n".join(lines.held))


def _lines_behind(text: str, ahead: Iterator[str], names: int, delimiter: str) -> int | None:
    """The number of lines `ahead` that belong to the refused record that begins with `text`; None
    if its quotes leave that open. `names` is the number of columns.

    If a backslash stands before any quote in `text`, backslashes escape quotes.
    """
    escaped = '\\"' in text
    dialect = {"delimiter": delimiter, "escapechar": "\\" if escaped else None}
    cells, is_open = _count_cells(text, dialect)
    is_paired = (_ESCAPED.sub("", text) if escaped else text).count('"') % 2 == 0
    if is_paired and not is_open and cells == names:
        return 0
    behind = _to_close(ahead, names, dialect)
    if behind is None and not is_open and (is_paired or cells == names):
        return 0
    return behind


def _count_cells(text: str, dialect: dict[str, Any]) -> tuple[int, bool]:
    """The number of cells in a text, with stray quotes read as characters, and whether the last
    cell is still open at its end."""
    records = csv.reader([text.replace("\r", " ") + "\n", '"'], **dialect)
    try:
        cells = next(records)
    except csv.Error:  # by its escapes, a line before its last one ends outside of quotes
        return 0, False
    return len(cells), records.line_num > 1


def _to_close(ahead: Iterator[str], names: int, dialect: dict[str, Any]) -> int | None:
    """The number of lines that close an open cell and complete its record; None if a stray quote
    comes first."""
    first = next(ahead, None)
    if first is None:
        return None
    lines = csv.reader(chain([f'"{first}'], ahead), strict=True, **dialect)
    try:
        cells = next(lines)
    except csv.Error:
        return None
    return lines.line_num if len(cells) <= names else None
