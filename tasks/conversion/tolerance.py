"""How many rows of a source may be lost through faults of their own before a stage fails.

In:  a stage's ledger, and the first quarantined row of each source and reason; of the stage before
     its ledger and its quarantine, where what that one lost counts too.
Out: nothing, or a DataError that names the three most frequent reasons with an example each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.artifact import NEUTRAL_REASONS, Ledger, Quarantine
from tasks.artifact.ledger import Account, first_faults
from tasks.errors import DataError, some

Examples = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Source -> reason -> file, row, field and message of its first row."""


def first_examples(quarantine: Quarantine) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The first quarantined row of each source and reason."""
    fields = ("file", "row", "field", "message")
    return merged(
        {row["source"]: {row["reason"]: {name: row[name] for name in fields}}}
        for row in quarantine.rows
    )


def merged(examples: Iterable[Examples]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Of several shards' examples the first of each source and reason: that of the first file and
    row, for rows that are joined stand in another order."""
    first: dict[str, dict[str, Mapping[str, Any]]] = {}
    for shard in examples:
        for source, reasons in shard.items():
            known = first.setdefault(source, {})
            for reason, example in reasons.items():
                known[reason] = min(known.get(reason, example), example, key=_place)
    return first


def _place(example: Mapping[str, Any]) -> tuple[str, int]:
    return example["file"], example["row"]


@dataclass(frozen=True)
class Earlier:
    """What the stage before lost of the same sources: its rows out are this one's rows in."""

    stage: str
    ledger: Ledger
    quarantine: Path
    """Each row that it could not use."""

    def examples_of(self, source: str) -> Examples:
        """The first row of each reason that is a fault."""
        rows = first_faults(self.quarantine, self.ledger)
        return {source: {row["reason"]: row for row in rows if row["source"] == source}}


def check_bad_fraction(
    ledger: Ledger,
    limit: float,
    key: str,
    examples: Examples,
    advice: str,
    earlier: Earlier | None = None,
) -> None:
    """Raises DataError where sources have a larger share of bad rows than `limit`, which says of
    the first of them what they are, and names the others.

    `key` names the limit in the params file; `advice` is what to do beside raising it. With
    `earlier` the share is of the rows that came into that stage. Where it took a sample of them,
    it is that of a source which is all like the sample.
    """
    shares = {source: _bad_fraction(ledger, source, earlier) for source in ledger.accounts}
    over = {source: share for source, share in shares.items() if share > limit}
    if not over:
        return
    (source, fraction), *others = over.items()
    account = ledger.accounts[source]
    before = earlier.ledger.accounts.get(source) if earlier else None
    count = f"{_counted(account)} ({fraction:.2%}) cannot be used"
    why = frequent(ledger, source, examples) if account.bad else ""
    if earlier and before and before.bad:
        count = (
            f"{_counted(before)} could not be read by {earlier.stage}, and of the others "
            f"{_counted(account)} cannot be used: {fraction:.2%}"
        )
        lost = frequent(earlier.ledger, source, earlier.examples_of(source))
        why = f"In {earlier.stage}: {lost} All of these are in {earlier.quarantine}. {why}"
    named = some([f"{name!r} ({share:.2%})" for name, share in others])
    raise DataError(
        f"source {source!r}: {count}, more than {key} {limit:.2%}. "
        + (f"Also more: source {named}. " if others else "")
        + f"{why.rstrip()} {advice}, or raise {key}"
    )


def _bad_fraction(ledger: Ledger, source: str, earlier: Earlier | None) -> float:
    kept = 1 - ledger.accounts[source].bad_share
    before = earlier.ledger.accounts.get(source) if earlier else None
    return float(1 - kept * (1 - before.bad_share) if before else 1 - kept)


def _counted(account: Account) -> str:
    what = "rows or pairs" if account.added else "rows"
    return f"{account.bad} of {account.units} {what}"


def frequent(ledger: Ledger, source: str, examples: Examples) -> str:
    """A source's three most frequent reasons that are faults, each with its first row; where none
    is a fault, those of the others that have one."""
    dropped = ledger.accounts[source].dropped
    faults = [reason for reason in dropped if reason not in NEUTRAL_REASONS]
    shown = faults or [reason for reason in dropped if reason in examples.get(source, {})]
    sentences: list[str] = []
    for n, reason in sorted((-dropped[reason], reason) for reason in shown)[:3]:
        example = examples[source][reason]
        field = f", {example['field']}" if example["field"] else ""
        sentences.append(
            f"{reason} ({-n}x), first {example['file']} row {example['row']}{field}: "
            f"{example['message']}."
        )
    return " ".join(sentences)
