"""The row ledger and the quarantine: no row is lost without a line that says where it went.

For each source: rows in + added = rows out + rows dropped, reason by reason.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.errors import ArtifactError

if TYPE_CHECKING:
    import pyarrow as pa

NEUTRAL_REASONS = frozenset(
    {
        *("blank_line", "duplicate", "contradiction", "tie", "too_long", "limit", "capped"),
        "unwanted",  # by the params
        *("joined", "unpaired_alone", "unrated"),  # rows that only together make pairs
        *("overridden_drop", "overridden_tie"),  # a person decided so
        *("held_out_elsewhere", "excluded", "outvoted"),  # other rows do
    }
)
"""Reasons that are no fault of a row: outside `max_bad_fraction`."""

QUARANTINE_FILE = "quarantine.parquet"
QUARANTINE_COLUMNS = ("stage", "source", "file", "row", "reason", "field", "message", "raw")


@dataclass
class Account:
    """The rows of one source in one stage."""

    rows_in: int = 0
    added: int = 0
    rows_out: int = 0
    dropped: Counter[str] = field(default_factory=Counter[str])

    @property
    def bad(self) -> int:
        """Rows dropped through a fault of their own."""
        return sum(n for reason, n in self.dropped.items() if reason not in NEUTRAL_REASONS)

    @property
    def units(self) -> int:
        """Rows in + added, but for blank lines: a row that stands for several pairs may lose them
        one by one."""
        return self.rows_in + self.added - self.dropped.get("blank_line", 0)

    @property
    def bad_share(self) -> Fraction:
        """Share of `units` that were dropped through a fault of their own."""
        return Fraction(self.bad, self.units) if self.units else Fraction(0)


class Ledger:
    """One account per source, in the order in which sources first appear."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}

    def count_in(self, source: str, n: int = 1) -> None:
        """`n` rows came in."""
        self._account(source).rows_in += n

    def count_out(self, source: str, n: int = 1) -> None:
        """`n` rows went out."""
        self._account(source).rows_out += n

    def count_added(self, source: str, n: int = 1) -> None:
        """`n` rows were made of a row beyond its first (a ranking of four gives six pairs)."""
        self._account(source).added += n

    def drop(self, source: str, reason: str, n: int = 1) -> None:
        """`n` rows were left out, for this reason."""
        self._account(source).dropped[reason] += n

    def merge(self, other: "Ledger") -> None:
        """Adds the other ledger's counts."""
        for source, account in other.accounts.items():
            mine = self._account(source)
            mine.rows_in += account.rows_in
            mine.added += account.added
            mine.rows_out += account.rows_out
            mine.dropped.update(account.dropped)

    def check(self) -> None:
        """Raises ArtifactError when a source's rows do not add up."""
        for source, a in self.accounts.items():
            if a.rows_in + a.added != a.rows_out + a.dropped.total():
                raise ArtifactError(
                    f"the ledger of source {source!r} does not balance: {a.rows_in} in + {a.added} "
                    f"added, {a.rows_out} out + {a.dropped.total()} dropped {dict(a.dropped)}; "
                    "this is a defect of the stage, please report it"
                )

    @property
    def rows_in(self) -> int:
        """Rows in, over all sources."""
        return sum(a.rows_in for a in self.accounts.values())

    @property
    def rows_out(self) -> int:
        """Rows out, over all sources."""
        return sum(a.rows_out for a in self.accounts.values())

    @property
    def dropped(self) -> dict[str, int]:
        """Rows dropped by reason, over all sources, most frequent first."""
        total: Counter[str] = Counter()
        for account in self.accounts.values():
            total.update(account.dropped)
        return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))

    def to_json(self) -> dict[str, Any]:
        """`{source: {rows_in, added, rows_out, dropped}}`."""
        return {
            source: asdict(a) | {"dropped": dict(sorted(a.dropped.items()))}
            for source, a in self.accounts.items()
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Ledger":
        """The ledger that `to_json` wrote."""
        ledger = cls()
        for source, entry in value.items():
            ledger.accounts[source] = Account(
                entry["rows_in"], entry["added"], entry["rows_out"], Counter(entry["dropped"])
            )
        return ledger

    def _account(self, source: str) -> Account:
        return self.accounts.setdefault(source, Account())


class Quarantine:
    """The rows that could not be used, each with its origin, its reason and the row itself."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.rows: list[dict[str, Any]] = []

    def add(
        self, source: str, file: str, row: int, reason: str, field: str, message: str, raw: str
    ) -> None:
        """Keeps one row; `row` is the 1-based line, or the row number in a columnar file."""
        values = (self.stage, source, file, row, reason, field, message, raw)
        self.rows.append(dict(zip(QUARANTINE_COLUMNS, values, strict=True)))

    def extend(self, rows: list[dict[str, Any]]) -> None:
        """Takes over rows that an earlier attempt had written."""
        self.rows.extend(rows)

    def write(self, path: Path) -> None:
        """Writes `quarantine.parquet`; present, with its columns, even when empty."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(self.rows, schema=quarantine_schema())
        pq.write_table(table, path, compression="zstd")


def first_faults(quarantine: Path, ledger: Ledger) -> list[dict[str, Any]]:
    """The first quarantined row of each source and reason that is a fault of the row; the file is
    read until all of them are found."""
    import pyarrow.parquet as pq

    missing = {
        (source, reason)
        for source, account in ledger.accounts.items()
        for reason in account.dropped
        if reason not in NEUTRAL_REASONS
    }
    found: list[dict[str, Any]] = []
    with pq.ParquetFile(quarantine) as file:
        for batch in file.iter_batches(1024) if missing else ():
            for row in batch.to_pylist():
                if (name := (row["source"], row["reason"])) in missing:
                    missing.remove(name)
                    found.append(row)
            if not missing:
                break
    return found


def quarantine_schema() -> "pa.Schema":
    """The columns of `quarantine.parquet`, the same in every stage."""
    import pyarrow as pa

    return pa.schema(
        [(name, pa.int64() if name == "row" else pa.string()) for name in QUARANTINE_COLUMNS]
    )
