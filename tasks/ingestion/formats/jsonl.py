"""JSONL: one JSON object per line, kept verbatim except for NaN (see `json_rows`)."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from tasks.ingestion.formats.batches import BadRow, Batch, Origin, too_large
from tasks.ingestion.formats.decompression import pieces, plain_pieces
from tasks.ingestion.formats.json_rows import is_object, sound_row
from tasks.ingestion.formats.lines import Block, blocks, mixed_ends, parts, text_pieces, unmarked
from tasks.ingestion.formats.sound_rows import doubtful


def read_jsonl(origin: Origin) -> Iterator[Batch]:
    """The lines of a file; a carriage return at a line's end is not part of the row."""
    return lines_as_rows(origin, text_pieces(origin, pieces(origin)))


def read_jsonl_from(
    origin: Origin, start: int, first: int, end: int = sys.maxsize
) -> Iterator[Batch]:
    """The lines of a plain file from byte `start` to byte `end`; `first` is the number of the line
    at `start`."""
    text = plain_pieces(origin, start, end)
    return lines_as_rows(origin, text if start else text_pieces(origin, text), first)


def lines_as_rows(origin: Origin, text: Iterator[bytes], first: int = 1) -> Iterator[Batch]:
    """The lines of bytes whose encoding is already checked; `first` is the number of the first
    line.

    Raises:
        DataError: a line holds several rows because CR and LF are mixed.
    """
    for block in blocks(text, first):
        yield _batch(origin, block)


def _batch(origin: Origin, block: Block) -> Batch:
    lines, first = block.lines, block.first
    batch = Batch(len(lines))
    done = 0
    for place in doubtful(lines):
        batch.rows.extend(range(first + done, first + place))
        batch.raws.extend(lines[done:place])
        _add(batch, origin, first + place, lines[place], block.oversized.get(place))
        done = place + 1
    batch.rows.extend(range(first + done, first + len(lines)))
    batch.raws.extend(lines[done:])
    return batch


def _add(batch: Batch, origin: Origin, row: int, line: bytes, full_size: int | None) -> None:
    """Adds one line after checking it alone."""
    raw = unmarked(origin, row, line.removesuffix(b"\r"))
    bad = None
    if full_size is not None:
        bad = too_large(row, full_size, raw)
    elif not raw.strip(b" \t\r\n"):
        batch.blank.append(row)
        return
    else:
        raw, fault = sound_row(raw)
        if fault and row == 1 and raw.lstrip()[:1] == b"[":
            message = f"{fault.message}; if the file is an array of rows, say format: json"
            fault = replace(fault, message=message)
        bad = BadRow(row, fault, raw) if fault else None
    if bad is None:
        batch.rows.append(row)
        batch.raws.append(raw)
    elif _holds_several(raw):
        raise mixed_ends(origin, row)
    else:
        batch.bad.append(bad)


def _holds_several(line: bytes) -> bool:
    """Whether line ends of the other kind split the line into several objects."""
    return len([*islice(filter(is_object, parts(line)), 2)]) == 2
