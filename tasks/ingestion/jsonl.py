"""JSONL: one JSON object per line, kept verbatim."""

from collections.abc import Iterator

from tasks.ingestion.batches import BadRow, Batch, Origin, too_large
from tasks.ingestion.decompression import pieces
from tasks.ingestion.json_rows import json_fault
from tasks.ingestion.lines import BOM, Block, blocks, text_pieces


def read_jsonl(origin: Origin) -> Iterator[Batch]:
    """The lines of a file; a carriage return at a line's end is not part of the row."""
    return lines_as_rows(origin, text_pieces(origin, pieces(origin)))


def lines_as_rows(origin: Origin, text: Iterator[bytes]) -> Iterator[Batch]:
    """The same for bytes whose encoding has been looked at already."""
    for block in blocks(text):
        yield _batch(origin, block)


def _batch(origin: Origin, block: Block) -> Batch:
    batch = Batch(read=len(block.lines))
    add_row, add_raw = batch.rows.append, batch.raws.append
    for row, line in enumerate(block.lines, block.first):
        raw = line
        if line[-1:] == b"\r":
            raw = line[:-1]
        if line[:1] == b"\xef" and line.startswith(BOM):
            raw = raw[len(BOM) :]
            origin.warn(f"{origin.name} line {row}: a byte order mark inside the file was removed")
        if block.oversized and row - block.first in block.oversized:
            batch.bad.append(too_large(row, block.oversized[row - block.first], raw))
        elif not raw.strip(b" \t\r"):
            batch.blank.append(row)
        elif fault := json_fault(raw):
            batch.bad.append(BadRow(row, fault, raw))
        else:
            add_row(row)
            add_raw(raw)
    return batch
