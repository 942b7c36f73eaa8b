"""How many rows of a source a stage may lose through faults of their own before it fails.

In:  a stage's ledger, and the first quarantined row of each source and reason.
Out: nothing, or a DataError that names the three most frequent reasons with an example each.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.artifact import NEUTRAL_REASONS, Ledger, Quarantine
from tasks.errors import DataError

Examples = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Source -> reason -> file, row, field and message of its first row."""


def first_examples(quarantine: Quarantine) -> dict[str, dict[str, dict[str, Any]]]:
    """The first quarantined row of each source and reason."""
    first: dict[str, dict[str, dict[str, Any]]] = {}
    for row in quarantine.rows:
        kept = {name: row[name] for name in ("file", "row", "field", "message")}
        first.setdefault(row["source"], {}).setdefault(row["reason"], kept)
    return first


def merged(examples: Sequence[Examples]) -> Examples:
    """Of several shards' examples the first of each source and reason."""
    first: dict[str, dict[str, Mapping[str, Any]]] = {}
    for shard in examples:
        for source, reasons in shard.items():
            for reason, example in reasons.items():
                first.setdefault(source, {}).setdefault(reason, example)
    return first


def check_bad_fraction(
    ledger: Ledger, limit: float, key: str, examples: Examples, advice: str
) -> None:
    """Raises DataError for the first source with a larger share of bad rows than `limit`.

    `key` names the limit in the params file; `advice` is what to do beside raising it.
    """
    for source, account in ledger.accounts.items():
        fraction = ledger.bad_fraction(source)
        if fraction <= limit:
            continue
        units = account.rows_in + account.added
        raise DataError(
            f"source {source!r}: {account.bad} of {units} rows"
            f"{' or pairs' if account.added else ''} ({fraction:.2%}) cannot be used, more than "
            f"{key} {limit:.2%}. {frequent(ledger, source, examples)} {advice}, or raise {key}"
        )


def frequent(ledger: Ledger, source: str, examples: Examples) -> str:
    """A source's three most frequent reasons that are faults, each with its first row."""
    dropped = ledger.accounts[source].dropped
    bad = [(n, reason) for reason, n in dropped.items() if reason not in NEUTRAL_REASONS]
    bad.sort(key=lambda item: (-item[0], item[1]))
    sentences: list[str] = []
    for n, reason in bad[:3]:
        example = examples[source][reason]
        sentences.append(
            f"{reason} ({n}x), first {example['file']} row {example['row']}, "
            f"{example['field']}: {example['message']}."
        )
    return " ".join(sentences)
