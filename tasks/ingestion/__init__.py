"""Raw rows of every source, verbatim, each with the file and the row that it came from.

Files in, shards of rows out, nothing interpreted: which columns mean what is conversion's matter.
"""

from tasks.ingestion.params import IngestionParams, Source
from tasks.ingestion.shards import iter_rows, row_shards
from tasks.ingestion.task import VERSION, step

__all__ = ["VERSION", "IngestionParams", "Source", "iter_rows", "row_shards", "step"]
