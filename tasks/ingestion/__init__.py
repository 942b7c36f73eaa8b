"""Raw rows of every source, verbatim, each with the file and the row that it came from.

Files in, shards of rows out, nothing interpreted: which columns mean what is conversion's matter.

    places/         where a source's files are, how they come here, what they are known by
    formats/        from bytes to rows: one reader for each format
    growth/         files that grow: what an earlier artifact holds of one is not read again
    unit, account   one file from end to end, and what is counted of it
    reading         the files of all sources, side by side
    where, mixture  which rows of a source are taken
    shards, shard_writer, row_groups, quarantine    rows on disk, and those that are none
    task            the stage
"""

from tasks.ingestion.params import IngestionParams, Source
from tasks.ingestion.shards import iter_rows, row_shards
from tasks.ingestion.task import VERSION, step

__all__ = ["VERSION", "IngestionParams", "Source", "iter_rows", "row_shards", "step"]
