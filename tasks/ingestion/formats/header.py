"""The header row of CSV and TSV: the names of a file's columns."""

from tasks.errors import DataError, shown
from tasks.ingestion.columns import TEXT, check_names
from tasks.ingestion.formats.batches import BadRow, Origin
from tasks.ingestion.formats.json_rows import is_object

_OTHER_DELIMITERS = ";\t|,"
_SEP_BYTES = len("sep=;")


def read_header(origin: Origin, row: int, cells: list[str] | BadRow, line: bytes) -> list[str]:
    """The names in the first record: `cells`, from row `row`, whose first line is `line`.

    Raises:
        DataError: they cannot be used: it is a line of JSON or one for Excel, or the file has
            another delimiter or encoding.
    """
    where = f"{origin.name} line {row}"
    if is_object(line):
        raise DataError(
            f"{where}: found a JSON object, expected the names of the columns: the file holds JSON "
            "lines; set format: jsonl on its source"
        )
    if (mark := line.strip(b"\r\n")).lower().startswith(b"sep=") and len(mark) == _SEP_BYTES:
        raise DataError(
            f"{where}: found {shown(mark)}, which tells Excel the delimiter, expected the names of "
            f"the columns: remove the line, and set delimiter={chr(mark[-1])!r} on its source"
        )
    if isinstance(cells, BadRow):
        raise DataError(f"{where}: no usable header ({cells.fault.message})")
    if any("\ud800" <= c <= "\udfff" for name in cells for c in name):
        raise DataError(f"{where}: the header is not UTF-8; convert the file")
    check_names(where, cells)
    other = [d for d in _OTHER_DELIMITERS if d != origin.delimiter and d in cells[0]]
    if len(cells) == 1 and other:
        raise DataError(
            f"{where}: columns found: {shown(cells[0])}; with delimiter={origin.delimiter!r} that "
            f"is one column: set delimiter={other[0]!r}"
        )
    origin.declare(dict.fromkeys(cells, TEXT))
    return cells
