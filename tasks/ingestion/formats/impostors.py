"""Recognises files that are no text, whatever their names say, by their first bytes.

    a workbook as votes.csv, a Parquet file as rows.jsonl, a web page as rows.jsonl

Read as text they would be bad rows, or seem to be UTF-16.
"""

from tasks.errors import DataError, shown
from tasks.ingestion.formats.batches import Origin

_AS_ZIP = "set format: zip on its source, or save the sheet of a workbook as CSV"
_AS_TEXT = "write its rows as JSONL, CSV or Parquet"
_STARTS = (
    (b"PK\x03\x04", "a ZIP archive, or a workbook, which is one", _AS_ZIP),
    (b"PK\x05\x06", "an empty ZIP archive", "fetch or pack it again"),
    (b"PAR1\x15", "a Parquet file", "set format: parquet on its source"),
    (b"ARROW1\0\0", "an Arrow file", "set format: arrow on its source"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old workbook or document", "save the sheet as CSV"),
    (b"SQLite format 3\0", "an SQLite database", _AS_TEXT),
    (b"\x93NUMPY", "a NumPy array", _AS_TEXT),
    (b"%PDF-", "a PDF document", _AS_TEXT),
    *(
        (b"\x80" + bytes([version]), "a pickle, which is never read", _AS_TEXT)
        for version in (2, 3, 4, 5)
    ),
)
_PAGES = (b"<!doctype html", b"<html")
_TAR_MARK = b"ustar"
_TAR_MARK_AT = 257
HEAD_BYTES = _TAR_MARK_AT + len(_TAR_MARK)
"""Bytes that suffice to recognise them."""


def check_is_text(origin: Origin, head: bytes) -> None:
    """Raises DataError if the first decompressed bytes are those of no text file."""
    kind, advice = kind_of(origin, head)
    if kind:
        raise DataError(
            f"{origin.name}: found {kind} (starts with {shown(head[:8])}), expected rows as text: "
            f"{advice}"
        )


def kind_of(origin: Origin, head: bytes) -> tuple[str, str]:
    """What a file is by its first bytes, and what to do with it; empty where they do not tell."""
    if head.startswith(_TAR_MARK, _TAR_MARK_AT):
        return "a tar archive", f"set format: tar{origin.codec} on its source"
    if head[:64].lstrip().lower().startswith(_PAGES):
        return "a web page, not the data that a link on it may lead to", "download the file itself"
    return next(
        ((kind, advice) for start, kind, advice in _STARTS if head.startswith(start)), ("", "")
    )
