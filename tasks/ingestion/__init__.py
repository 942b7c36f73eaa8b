"""Raw rows of every source, verbatim, each with the file and the row that it came from.

Files in, shards of rows out, nothing interpreted: conversion decides what columns mean.

    places/         where a source's files are, how they are fetched, what identifies them
    formats/        from bytes to rows: one reader for each format
    growth/         files that grow: rows that an earlier artifact holds are not read again
    unit, account   one file from end to end, and its counts
    reading         the files of all sources, in parallel
    where, mixture  which rows of a source are kept
    shards, shard_writer, row_groups, quarantine    rows on disk, good and bad
    task            the stage
"""

from tasks.ingestion.params import IngestionParams, Source
from tasks.ingestion.shards import iter_rows, row_shards
from tasks.ingestion.task import VERSION, step

__all__ = ["VERSION", "IngestionParams", "Source", "iter_rows", "row_shards", "step"]
