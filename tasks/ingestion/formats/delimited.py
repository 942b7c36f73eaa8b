"""CSV and TSV: every cell is a string; a record becomes a JSON object of strings.

    prompt,chosen,rejected        ->  {"prompt":"NA","chosen":"007","rejected":""}
    NA,007,

A record's row is the physical line on which it starts; quoted cells may hold line ends.
"""

import csv
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from tasks.ingestion.formats.batches import (
    ROW_LIMIT_BYTES,
    BadRow,
    Batch,
    Fault,
    Origin,
    not_utf8,
)
from tasks.ingestion.formats.decompression import pieces
from tasks.ingestion.formats.header import read_header
from tasks.ingestion.formats.json_bytes import dumped
from tasks.ingestion.formats.lines import blocks, mixed_ends, parts, text_pieces
from tasks.ingestion.formats.record_lines import OR_UNQUOTED, Oversized, RecordLines, unclosed
from tasks.ingestion.formats.refused_records import complete_record

BATCH_RECORDS = 512

csv.field_size_limit(ROW_LIMIT_BYTES)  # of the process; the module's own limit is 128 KB


def read_csv(origin: Origin) -> Iterator[Batch]:
    """The records of a file under the names of its header row.

    Raises:
        DataError: the header cannot be used, a quote is never closed, the end of a record is
            ambiguous, or a line holds several records because CR and LF are mixed.
    """
    lines = RecordLines(origin, blocks(text_pieces(origin, pieces(origin))))
    records = _reader(origin, lines, strict=True)
    header: list[str] | None = None
    batch = Batch(read=0)
    for cells in _cells(origin, lines, records):
        if header is None:
            if isinstance(cells, BadRow) or "".join(cells).strip():
                header = read_header(origin, lines.row, cells, lines.held[0])
            continue
        _add(batch, lines, header, cells)
        if _total(batch) >= BATCH_RECORDS:
            yield replace(batch, read=_total(batch))
            batch = Batch(read=0)
    yield replace(batch, read=_total(batch))


def _reader(origin: Origin, lines: Iterator[str], *, strict: bool = False) -> Iterator[list[str]]:
    quoting = csv.QUOTE_MINIMAL if origin.quotes else csv.QUOTE_NONE
    return csv.reader(lines, delimiter=origin.delimiter, quoting=quoting, strict=strict)


def _total(batch: Batch) -> int:
    return batch.counted + len(batch.blank)


def _cells(
    origin: Origin, lines: RecordLines, records: Iterator[list[str]]
) -> Iterator[list[str] | BadRow]:
    """The cells of each record; a bad row for one that the csv module refuses."""
    while True:
        lines.at_start = True
        try:
            yield next(records)
        except StopIteration:
            return
        except Oversized:
            assert lines.oversized is not None
            yield lines.oversized
        except csv.Error as error:
            if "unexpected end of data" in str(error) or "field limit" in str(error):
                raise unclosed(origin, lines.row) from error
            yield BadRow(lines.row, _refused(error, lines.held[-1]), b"\n".join(lines.held))


def _refused(error: csv.Error, line: bytes) -> Fault:
    """The fault of a record that the csv module refuses; `line` is its last line."""
    if "new-line character" not in str(error):
        return Fault("csv_quote", "", f"{error}; write a quote inside a cell as two{OR_UNQUOTED}")
    end = "carriage return (CR)" if b"\r" in line else "line feed (LF)"
    message = f"a {end} stands outside of quotes within the line; put its cell in quotes, or "
    return Fault("csv_quote", "", message + "where it ends rows, write their ends as LF or CRLF")


def _add(batch: Batch, lines: RecordLines, header: list[str], cells: list[str] | BadRow) -> None:
    if isinstance(cells, BadRow):
        if _holds_several(lines, header):
            raise mixed_ends(lines.origin, lines.row)
        batch.bad.append(complete_record(lines, header, cells))
        return
    row = lines.row
    if not cells or (len(cells) == 1 < len(header) and not cells[0].strip()):
        batch.blank.append(row)
        return
    fault = _fault(lines, header, cells)
    if fault:
        batch.bad.append(BadRow(row, fault, b"\n".join(lines.held)))
        return
    batch.rows.append(row)
    batch.raws.append(dumped(dict(zip(header, cells, strict=True))))


def _holds_several(lines: RecordLines, header: list[str]) -> bool:
    """Whether line ends of the other kind split the last line into several complete records."""
    within = lines.held[-1][:ROW_LIMIT_BYTES]  # so no cell is above the module's limit
    texts = (part.decode("utf-8", "replace") for part in parts(within))
    records = _reader(lines.origin, texts)
    return sum(islice((1 for cells in records if len(cells) == len(header) > 1), 2)) == 2


def _is_rows(held: list[bytes], cells: int) -> bool:
    """Whether each line of a record has as many tabs as a full row: then its quotes enclose
    nothing, since text has few tabs."""
    return len(held) > 1 < cells and all(line.count(b"\t") == cells - 1 for line in held)


def _fault(lines: RecordLines, header: list[str], cells: list[str]) -> Fault | None:
    raw = b"\n".join(lines.held)
    if len(cells) != len(header):
        message = f"{len(cells)}!={len(header)}: {len(cells)} cells under {len(header)} names; "
        return Fault("csv_field_count", "", message + "complete the row, or quote its delimiters")
    if lines.origin.delimiter == "\t" and _is_rows(lines.held, len(header)):
        message = f"quotes enclose the ends of {len(lines.held)} lines that are full rows each; "
        return Fault("csv_quote", "", message + f"write each quote in them as two{OR_UNQUOTED}")
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            return not_utf8(error)
    if b"\0" in raw:
        name = next(n for n, cell in zip(header, cells, strict=True) if "\0" in cell)
        return Fault("nul_char", name, "holds the NUL character; remove it")
    return None
