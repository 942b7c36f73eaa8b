r"""Spans: the lines of each full shard of a JSONL file, computed from where its lines end.

    bytes    {...}\n{...}\n ... {...}\n|{...}\n ... {...}\n|{...}\n ... {...}\n|{...}
             |        a span         |       a span      |       a span      | no full shard

They hold if every line is a row. To find line ends takes a hundredth of the time that it takes to
read the rows. `ShardWriter` ends its shards by the same rules.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.ingestion.growth.appended import FinishedPart
from tasks.ingestion.growth.marks import Ends, line_ends
from tasks.ingestion.row_groups import full_group
from tasks.ingestion.shards import GROUP_ROWS, is_full


@dataclass(frozen=True)
class Span:
    """The lines of one full shard, if all of them are rows."""

    shards: int
    """Shards before this one; the next three fields count rows, lines and bytes before it."""
    rows: int
    line: int
    start: int
    end: int
    """Bytes up to the end of the last line."""
    count: int
    """Lines of the span."""

    @property
    def shard_end(self) -> tuple[int, int, int]:
        """The arguments of `Ended` when a `ShardWriter` has filled this shard."""
        return self.shards + 1, self.rows + self.count, self.line + self.count


def spans(path: Path, finished: FinishedPart) -> Iterator[Span]:
    """The spans of a file behind its finished part, up to its last line end."""
    last = finished.last
    shards, rows, line, start = last.shards, last.rows, last.line, last.end
    group, count, size = start, 0, 0
    ends = np.zeros(0, np.int64)
    for more in line_ends(path, start):
        ends = np.concatenate([ends, more])
        while full := _full_group(ends, group):
            end = int(ends[full - 1])
            count, size = count + full, size + end - group - full
            group, ends = end, ends[full:]
            if is_full(rows, count, size):
                yield Span(shards, rows, line, start, end, count)
                shards, rows, line, start = shards + 1, rows + count, line + count, end
                count = size = 0


def _full_group(ends: Ends, start: int) -> int:
    """How many of the lines from `start` on make a full group of rows; 0 where they do not yet."""
    some = ends[:GROUP_ROWS]
    return full_group(some - start - np.arange(1, len(some) + 1))
