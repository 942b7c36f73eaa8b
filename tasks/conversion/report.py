"""What the record says about a conversion, and when a conversion fails.

In:  the summaries of pass 1 and the counts of what is left.
Out: the report, or a DataError that names the reasons and shows an example of each.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.artifact import Ledger
from tasks.conversion.enough_left import check_splits
from tasks.conversion.params import ConversionParams
from tasks.conversion.preference.splits import SPLITS
from tasks.conversion.second_pass.duplicates import (
    ALIKE,
    CONTRADICTION,
    DUPLICATE,
    Verdicts,
    check_no_leakage,
)
from tasks.conversion.second_pass.kept import KeptPairs
from tasks.conversion.tolerance import Earlier, Examples, check_bad_fraction, frequent, merged
from tasks.errors import DataError

Summaries = Sequence[Mapping[str, Any]]
MOST_CONTRADICTED = 0.2
"""Share of a source's rows whose scores contradict the label above which its columns are taken to
be swapped, however many bad rows are allowed."""
FEWEST_CONTRADICTED = 3
"""Fewer such rows say nothing about a whole source."""


def examples_of(summaries: Summaries) -> Examples:
    """The first quarantined row of each source and reason, over all shards."""
    return merged([summary["examples"] for summary in summaries])


def incoming(summaries: Summaries) -> Ledger:
    """The ledger of pass 1: rows in and unusable rows; nothing has gone out yet."""
    ledger = Ledger()
    for summary in summaries:
        ledger.merge(Ledger.from_json(summary["ledger"]))
    return ledger


def check_usable(
    ledger: Ledger, examples: Examples, params: ConversionParams, ingested: Earlier
) -> None:
    """Raises DataError for a source whose columns look swapped, or with too many bad rows, those
    that ingestion could not read included."""
    for source, account in ledger.accounts.items():
        against = account.dropped.get("score_contradicts_label", 0)
        total = account.rows_in + account.added
        if against >= FEWEST_CONTRADICTED and against > MOST_CONTRADICTED * total:
            raise DataError(
                f"source {source!r}: in {against} of {account.rows_in + account.added} rows the "
                "rejected answer has the higher score: the columns of chosen and rejected, or of "
                f"their scores, are probably swapped. {frequent(ledger, source, examples)} Swap "
                "them in the source's 'columns'"
            )
    advice = "Correct the source, name another layout"
    key = "conversion.max_bad_fraction"
    check_bad_fraction(ledger, params.max_bad_fraction, key, examples, advice, ingested)


def finished(
    ledger: Ledger,
    kept: KeptPairs,
    verdicts: Verdicts,
    summaries: Summaries,
    params: ConversionParams,
) -> dict[str, Any]:
    """The report of a conversion.

    Raises:
        DataError: train or eval is empty although eval_fraction asks for both.
    """
    train, held_out = check_no_leakage(kept.groups, kept.held_out)
    check_splits(ledger, train, held_out, params)
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
        "with_preference": _sum(kept, "with_preference"),
        "with_comparison": _sum(kept, "with_comparison"),
        "ties": ledger.dropped.get("tie", 0),
        "ties_kept": _sum(kept, "ties"),
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
        "labels": _by_source(summaries, "labels"),
        "notes": _by_source(summaries, "notes"),
    }


def _by_source(summaries: Summaries, name: str) -> dict[str, dict[str, int]]:
    """The counts that all shards' summaries hold under a name."""
    total: dict[str, Counter[str]] = {}
    for summary in summaries:
        for source, counts in summary[name].items():
            total.setdefault(source, Counter()).update(counts)
    return {source: dict(sorted(counts.items())) for source, counts in total.items()}


def overridden(overrides: Mapping[str, str], summaries: Summaries) -> dict[str, Any]:
    """How many decisions there are, how many pairs each action met, and which ids met none."""
    applied: Counter[str] = Counter()
    met: set[str] = set()
    for summary in summaries:
        for action, pairs in summary["overridden"].items():
            applied[action] += sum(pairs.values())
            met.update(pairs)
    unknown = sorted(overrides.keys() - met)
    return {
        "listed": len(overrides),
        "applied": dict(sorted(applied.items())),
        "unknown": len(unknown),
        "first_unknown": unknown[:3],
    }


def decided_keys(summaries: Summaries) -> npt.NDArray[Any]:
    """The keys `[N, 2]`, high and low, that pairs had before they were overridden."""
    keys = sorted({key for summary in summaries for key in summary["decided"]})
    return np.frombuffer(bytes.fromhex("".join(keys)), ">u8").astype(np.uint64).reshape(-1, 2)


def override_warnings(counts: Mapping[str, Any], params: ConversionParams) -> list[str]:
    """A sentence where decisions met no pair: of another data set, or of pairs changed since."""
    if not counts["unknown"]:
        return []
    return [
        f"{params.overrides}: {counts['unknown']} of {counts['listed']} overrides name a "
        f"pair_id that no pair has, the first {', '.join(counts['first_unknown'])}; they were left "
        "aside (a flipped pair has its new id only while its flip stands in this file, too, and by "
        "it it is not flipped back: to undo a flip, remove it)"
    ]


def _sum(kept: KeptPairs, what: str, source: str | None = None, split: str | None = None) -> int:
    counts = kept.counts
    if source is None:
        return sum(
            n
            for (_, its_split, its_what), n in counts.items()
            if its_what == what and split in (None, its_split)
        )
    return sum(counts.get((source, each, what), 0) for each in SPLITS if split in (None, each))


def _longer_wins(
    kept: KeptPairs, source: str | None = None, split: str | None = None
) -> float | None:
    """Accuracy of preferring the longer answer, in characters; equal lengths count one half.

    Ties have no right answer and are left out.
    """
    pairs = _sum(kept, "pairs", source, split) - _sum(kept, "ties", source, split)
    if not pairs:
        return None
    longer = _sum(kept, "longer", source, split)
    return (longer + _sum(kept, "equal", source, split) / 2) / pairs
