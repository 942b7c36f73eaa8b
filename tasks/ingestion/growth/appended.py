"""Files that have grown since an earlier artifact was made: only the appended lines are read.

    a file then    | shard 0 | shard 1 | shard 2 |
    the file now   | shard 0 | shard 1 | shard 2 and more |      0 and 1 are taken from there

A mark describes where a shard ends: line number, byte offset, and digest of the file up to there. A
shard is reused if the file still has the same bytes up to its mark; so after a change, all that
follows the change is read again. Small shards are reused only while the rows behind the last full
shard are too few to fill another one. This works for plain JSONL files of which every row is taken;
other files are always read whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice, takewhile
from typing import Any

from tasks.artifact import Kept, Memo, threaded_map
from tasks.ingestion.formats.batches import BadRow, Fault
from tasks.ingestion.formats.decompression import PIECE_BYTES, codec_of
from tasks.ingestion.growth.marks import Mark, may_fill
from tasks.ingestion.params import Source
from tasks.ingestion.places.files import SourceFile
from tasks.ingestion.places.prefixes import PiecesHash

MOST_EARLIER = 3
"""Number of earlier artifacts of the same file that are considered."""
MOST_BAD_BYTES = 2**20
"""Bad rows are kept for the next run up to this size; a file with more is then read whole."""


@dataclass(frozen=True)
class FinishedPart:
    """The part of a file whose shards are in place already; by default nothing."""

    marks: Sequence[Mark] = ()
    bad: Sequence[BadRow] = ()
    state: PiecesHash = field(default_factory=PiecesHash)
    """The state of the hash at the end of that part, to be continued."""

    @property
    def last(self) -> Mark:
        """Where reading continues."""
        return self.marks[-1] if self.marks else Mark(0, 0, 0)

    @property
    def last_full(self) -> Mark:
        """Where the last of the full shards ends; at the file's beginning if there is none."""
        return next((mark for mark in reversed(self.marks) if not mark.small), Mark(0, 0, 0))


def is_appendable(source: Source, file: SourceFile, limit: int | None) -> bool:
    """Whether the file's rows are its lines, all of them, and lines end at b"\\n"."""
    sampled = source.where or source.weight < 1 or source.cap is not None
    if file.format != "jsonl" or limit is not None or sampled:
        return False
    if file.codec or not file.path.is_file():
        return False
    with file.path.open("rb") as stream:
        first = stream.read(PIECE_BYTES)
    return not codec_of(first) and b"\n" in first


def reused_part(memo: Memo, unit: str, file: SourceFile, directory: str) -> FinishedPart:
    """The longest part of the file that an earlier artifact holds, with its shards linked into
    `directory`."""
    known = [
        (kept, [Mark(**mark) for mark in kept.summary["marks"]])
        for kept in islice(memo.known(unit), MOST_EARLIER)
    ]
    ends = {mark.end for _, marks in known for mark in marks if mark.end <= file.size}
    states = file.prefixes.at(file.path, ends) if ends else {}

    def stands(mark: Mark) -> bool:
        state = states.get(mark.end)
        return state is not None and state.hexdigest() == mark.prefix

    best: tuple[Kept, list[Mark]] | None = None
    for kept, marks in known:
        standing = [*takewhile(stands, marks)]
        if standing == marks and marks[-1].end < file.size:
            standing.pop()  # the mark of the former end of the file, which ends no shard
        if standing and (best is None or standing[-1].end > best[1][-1].end):
            best = kept, standing
    if best is None:
        return FinishedPart()
    kept, marks = best
    names = kept.files[: marks[-1].shards]

    def link(number: int, read: bool = True) -> bool:
        return memo.link(kept, names[number], f"{directory}/{number:05d}.parquet", read=read)

    numbers = range(len(names))
    linked = sum(takewhile(bool, (link(number, read=False) for number in numbers)))
    linked += sum(takewhile(bool, threaded_map(link, numbers[linked:])))
    marks = [mark for mark in marks if mark.shards <= linked]
    if marks and marks[-1].small and may_fill(file.path, FinishedPart(marks).last_full):
        marks = [mark for mark in marks if not mark.small]  # a full shard will replace these
    if not marks:
        return FinishedPart()
    bad = [_bad_row(entry) for entry in kept.summary["bad"]]
    return FinishedPart(marks, [b for b in bad if b.row <= marks[-1].line], states[marks[-1].end])


class KeptBadRows:
    """A file's bad rows, kept for the next run unless they are too large (`MOST_BAD_BYTES`)."""

    def __init__(self) -> None:
        self.rows: list[BadRow] = []
        self.size = 0

    def extend(self, bad: Sequence[BadRow]) -> None:
        """Adds bad rows."""
        for entry in bad:
            self.size += len(entry.raw) + len(entry.fault.message)
            if self.size <= MOST_BAD_BYTES:
                self.rows.append(entry)

    def summary(self, marks: Sequence[Mark]) -> dict[str, Any] | None:
        """What `reused_part` needs in the next run; None where the bad rows are too large."""
        if self.size > MOST_BAD_BYTES:
            return None
        bad = [
            {"row": b.row, "fault": asdict(b.fault), "raw": b.raw.decode("latin-1")}
            for b in self.rows
        ]
        return {"marks": [asdict(mark) for mark in marks], "bad": bad}


def _bad_row(entry: Mapping[str, Any]) -> BadRow:
    return BadRow(entry["row"], Fault(**entry["fault"]), entry["raw"].encode("latin-1"))
