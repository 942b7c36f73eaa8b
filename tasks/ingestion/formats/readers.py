"""The reader of every format, by name, and a limit on the number of records."""

from collections.abc import Callable, Iterator
from functools import partial

from tasks.ingestion.formats.batches import Batch, Origin, first_rows
from tasks.ingestion.formats.decompression import DamagedFile
from tasks.ingestion.formats.delimited import read_csv
from tasks.ingestion.formats.isolation import isolated
from tasks.ingestion.formats.json_array import read_json
from tasks.ingestion.formats.jsonl import read_jsonl
from tasks.ingestion.formats.pointers import check_no_pointer

READERS: dict[str, Callable[[Origin], Iterator[Batch]]] = {
    "jsonl": read_jsonl,
    "json": read_json,
    "csv": read_csv,
    "parquet": partial(isolated, "parquet"),
    "arrow": partial(isolated, "arrow"),
}


def read_rows(format_: str, origin: Origin) -> Iterator[Batch]:
    """The rows of a file of this format.

    Raises:
        DataError: the file cannot be used.
    """
    check_no_pointer(origin)
    yield from READERS[format_](origin)


def limited(batches: Iterator[Batch], limit: int | None, name: str) -> Iterator[Batch]:
    """The batches up to `limit` records; an error of damage says how many rows came before it."""
    counted = 0
    try:
        for whole in batches:
            batch = whole if limit is None else first_rows(whole, limit - counted)
            counted += batch.counted
            yield batch
            if limit is not None and counted >= limit:
                return
    except DamagedFile as error:
        raise DamagedFile(
            f"{error} ({counted:,} rows were read before the damage; none of {name} is used)"
        ) from error
