"""What the record says about a conversion, and when a conversion fails.

In:  the summaries of pass 1 and the counts of what is left.
Out: the report, or a DataError that names the reasons and shows an example of each.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tasks.artifact import NEUTRAL_REASONS, Ledger
from tasks.conversion.duplicates import ALIKE, CONTRADICTION, DUPLICATE, Verdicts, check_no_leakage
from tasks.conversion.params import ConversionParams
from tasks.conversion.selection import Kept
from tasks.errors import DataError

Summaries = Sequence[Mapping[str, Any]]


def incoming(summaries: Summaries) -> Ledger:
    """The ledger of pass 1: rows in and unusable rows; nothing has gone out yet."""
    ledger = Ledger()
    for summary in summaries:
        ledger.merge(Ledger.from_json(summary["ledger"]))
    return ledger


def check_bad_fraction(ledger: Ledger, summaries: Summaries, params: ConversionParams) -> None:
    """Raises DataError for the first source of which too many rows are unusable."""
    for source, account in ledger.accounts.items():
        bad = sum(n for reason, n in account.dropped.items() if reason not in NEUTRAL_REASONS)
        units = account.rows_in + account.added  # a row of several pairs may lose them one by one
        fraction = bad / units if units else 0.0
        if fraction > params.max_bad_fraction:
            raise DataError(
                f"source {source!r}: {bad} of {units} rows{' or pairs' if account.added else ''} "
                f"({fraction:.2%}) "
                f"cannot be used, more than conversion.max_bad_fraction "
                f"{params.max_bad_fraction:.2%}. {_frequent(account.dropped, source, summaries)} "
                "Correct the source, name another layout, or raise max_bad_fraction"
            )


def _frequent(dropped: Counter[str], source: str, summaries: Summaries) -> str:
    """The three most frequent reasons, each with its first row."""
    bad = [(n, reason) for reason, n in dropped.items() if reason not in NEUTRAL_REASONS]
    bad.sort(key=lambda item: (-item[0], item[1]))
    sentences: list[str] = []
    for n, reason in bad[:3]:
        example = _example(source, reason, summaries)
        sentences.append(
            f"{reason} ({n}x), first {example['file']} row {example['row']}, "
            f"{example['field']}: {example['message']}."
        )
    return " ".join(sentences)


def _example(source: str, reason: str, summaries: Summaries) -> Mapping[str, Any]:
    return next(
        s["examples"][source][reason] for s in summaries if reason in s["examples"].get(source, {})
    )


def check_any_left(ledger: Ledger, summaries: Summaries) -> None:
    """Raises DataError when every row was dropped."""
    if ledger.rows_out:
        return
    reasons = " ".join(
        _frequent(account.dropped, source, summaries) for source, account in ledger.accounts.items()
    )
    raise DataError(
        f"conversion: no pair is left of {ledger.rows_in} rows; dropped: {ledger.dropped}. "
        f"{reasons} Add rows that can be used"
    )


def finished(
    ledger: Ledger,
    kept: Kept,
    verdicts: Verdicts,
    summaries: Summaries,
    params: ConversionParams,
) -> dict[str, Any]:
    """The report of a conversion.

    Raises:
        DataError: train or eval is empty although eval_fraction asks for both.
    """
    train, held_out = check_no_leakage(np.concatenate(kept.groups), np.concatenate(kept.held_out))
    _check_splits(train, held_out, params)
    notes: dict[str, Counter[str]] = {}
    for summary in summaries:
        for source, counts in summary["notes"].items():
            notes.setdefault(source, Counter()).update(counts)
    codes = verdicts.codes
    return {
        "ledger": ledger.to_json(),
        "pairs": _sum(kept, "pairs"),
        "train": _sum(kept, "pairs", split="train"),
        "eval": _sum(kept, "pairs", split="eval"),
        "groups": train + held_out,
        "eval_groups": held_out,
        "conversational": _sum(kept, "conversational"),
        "with_margin": _sum(kept, "with_margin"),
        "ties": ledger.dropped.get("tie", 0),
        "duplicates": {
            "exact": int((codes == DUPLICATE).sum()),
            "normalised": int((codes == ALIKE).sum()),
            "other_margin": verdicts.other_margin,
        },
        "contradictions": int((codes == CONTRADICTION).sum()),
        "length_baseline": {
            "all": _longer_wins(kept),
            "train": _longer_wins(kept, split="train"),
            "eval": _longer_wins(kept, split="eval"),
        },
        "sources": {
            source: {
                "train": _sum(kept, "pairs", source, "train"),
                "eval": _sum(kept, "pairs", source, "eval"),
                "length_baseline": _longer_wins(kept, source),
            }
            for source in ledger.accounts
        },
        "notes": {source: dict(sorted(counts.items())) for source, counts in notes.items()},
    }


def _check_splits(train: int, held_out: int, params: ConversionParams) -> None:
    if train == 0 or (held_out == 0 and params.eval_fraction > 0):
        empty = "train" if train == 0 else "eval"
        raise DataError(
            f"conversion: the {empty} split is empty: {train + held_out} prompt groups at "
            f"eval_fraction {params.eval_fraction} and seed {params.seed} gave {train} to train "
            f"and {held_out} to eval; add data, change eval_fraction (0 holds nothing out) or "
            "try another seed"
        )


def _sum(kept: Kept, what: str, source: str | None = None, split: str | None = None) -> int:
    return sum(
        n
        for (its_source, its_split, its_what), n in kept.counts.items()
        if its_what == what and source in (None, its_source) and split in (None, its_split)
    )


def _longer_wins(kept: Kept, source: str | None = None, split: str | None = None) -> float | None:
    """Accuracy of preferring the longer answer, in characters; equal lengths count one half."""
    pairs = _sum(kept, "pairs", source, split)
    if not pairs:
        return None
    longer = _sum(kept, "longer", source, split)
    return (longer + _sum(kept, "equal", source, split) / 2) / pairs
