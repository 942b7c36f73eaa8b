"""The rows of a benchmark's local files, as items; read by the readers of ingestion.

In: a file, a glob or a directory (.parquet .jsonl .json .csv ..., plain or compressed). Nothing is
left out: a line that cannot be read is an error, and files of a directory that are of no known
format are told.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from tasks.errors import DataError
from tasks.evaluation.benchmarks.catalogue import BENCHMARKS
from tasks.evaluation.benchmarks.items import Item, Place
from tasks.evaluation.params import BenchmarkParams
from tasks.ingestion.formats.readers import read_rows
from tasks.ingestion.params import Source
from tasks.ingestion.places.files import SourceFile, check_unchanged
from tasks.ingestion.places.local_files import find_files, match_files
from tasks.ingestion.places.unread_files import left_out_message

logger = logging.getLogger(__name__)


def benchmark_files(params: BenchmarkParams) -> list[SourceFile]:
    """The files that the path matches, hashed.

    Raises:
        DataError: none, or one of a kind that holds no rows.
    """
    try:
        found = match_files(_source(params))
    except DataError as error:
        said = str(error).removeprefix("source 'benchmark': ")
        raise DataError(f"evaluation.benchmarks {params.label}: {said}") from None
    for file in found:
        if file.is_archive:
            raise DataError(
                f"evaluation.benchmarks {params.label}: {file.name} is an archive; unpack it"
            )
    return found


def items_of(params: BenchmarkParams, files: Sequence[SourceFile]) -> list[Item]:
    """Every row of the files as an item, in order.

    Raises:
        DataError: a row is not of the benchmark's schema, a file changed, or there is no row.
    """
    benchmark = BENCHMARKS[params.name]
    found: list[Item] = []
    for file in files:
        check_unchanged(file)
        name = Path(file.name).name
        found += [
            benchmark.item(row, Place(params.name, name, number)) for number, row in _rows(file)
        ]
        check_unchanged(file)
    if not found:
        raise DataError(f"evaluation.benchmarks {params.label}: {params.path} holds no row")
    benchmark.check(found)
    if left_out := find_files(_source(params)).left_out:
        advice = "rename them, with an extension that says what they are"
        message = left_out_message(left_out, f"the files below {params.path!r}", advice)
        logger.warning("evaluation.benchmarks %s: %s", params.label, message)
    return found


def _source(params: BenchmarkParams) -> Source:
    return Source(name="benchmark", path=params.path)


def _rows(file: SourceFile) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with TemporaryDirectory() as scratch:
        for batch in read_rows(file.format, file.origin(Path(scratch))):
            for bad in batch.bad:
                raise DataError(f"{file.name} row {bad.row}: {bad.fault.message}")
            yield from zip(batch.rows, map(orjson.loads, batch.raws), strict=True)
