"""The counts of one file while it is read: ledger, bad rows, an example of each fault."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tasks.artifact import Ledger
from tasks.errors import shown
from tasks.ingestion.formats.batches import BadRow, Batch
from tasks.ingestion.growth.appended import FinishedPart, KeptBadRows
from tasks.ingestion.mixture import UNWANTED, Sample, leave_out
from tasks.ingestion.params import Source


@dataclass
class Account:
    """The counts of one file so far."""

    source: Source
    file: str
    sample: Sample
    bad: KeptBadRows
    ledger: Ledger = field(default_factory=Ledger)
    examples: dict[str, str] = field(default_factory=dict[str, str])
    counted: int = 0

    def add(self, batch: Batch) -> None:
        """Counts a batch, all of its rows as kept."""
        self._count(batch.read, len(batch.rows), len(batch.blank), batch.bad)

    def add_finished(self, finished: FinishedPart) -> None:
        """Counts the part of the file that is in place already."""
        last = finished.last
        self._count(last.line, last.rows, last.line - last.rows - len(finished.bad), finished.bad)

    def _count(self, read: int, rows: int, blank: int, bad: Sequence[BadRow]) -> None:
        source = self.source.name
        self.ledger.count_in(source, read)
        self.ledger.count_out(source, rows)
        if blank:
            self.ledger.drop(source, "blank_line", blank)
        for reason, count in Counter(entry.fault.reason for entry in bad).items():
            self.ledger.drop(source, reason, count)
        for entry in bad:
            self.examples.setdefault(entry.fault.reason, _example(self.file, entry))
        self.bad.extend(bad)
        self.counted += rows + len(bad)

    def leave_out_unselected(self) -> None:
        """Counts the rows that the sample left out as dropped, once the file is read."""
        leave_out(self.ledger, self.source.name, self.sample.left_out)
        self.ledger.check()
        if first := self.sample.first_unwanted:
            self.examples[UNWANTED] = f"{self.file} {first}"


def _example(name: str, bad: BadRow) -> str:
    field = f" field {shown(bad.fault.field)}" if bad.fault.field else ""
    return f"{name} row {bad.row}{field}: {bad.fault.message}"
