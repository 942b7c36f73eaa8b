"""The warning about sources of which tokenization dropped many pairs."""

from collections.abc import Sequence

from tasks.artifact import Ledger
from tasks.artifact.ledger import Account
from tasks.errors import shown, some

LOST = 0.05
"""A source that loses this share of its pairs, or more, gets a warning."""


def losses(ledger: Ledger, max_length: int | None, too_long: Sequence[int]) -> list[str]:
    """One sentence with all sources that lost a share of `LOST` or more, the largest share first;
    or nothing.

    `too_long`: tokens of the longer side of each pair with more than `max_length`.
    """
    lost = {s: a for s, a in ledger.accounts.items() if a.dropped.total() >= LOST * a.rows_in > 0}
    if not lost:
        return []
    worst = sorted(lost.items(), key=lambda each: -each[1].dropped.total() / each[1].rows_in)
    parts = some([_loss(source, account) for source, account in worst])
    total = sum(ledger.dropped.values())
    advice = _advice(ledger.rows_in, max_length, too_long) if too_long else ""
    return [f"tokenization left out {total:,} of {ledger.rows_in:,} pairs: {parts}{advice}"]


def _loss(source: str, account: Account) -> str:
    n = account.dropped.total()
    count = f"all {n:,}" if n == account.rows_in else f"{n:,} of {account.rows_in:,}"
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in account.dropped.most_common() if n)
    return f"{count} of source {shown(source)} ({reasons})"


def _advice(pairs: int, max_length: int | None, too_long: Sequence[int]) -> str:
    """The values of max_length that would keep 95 % of the pairs, and all of them."""
    lengths, most = sorted(too_long, reverse=True), int(LOST * pairs)
    enough = f"{lengths[most]:,} would keep {1 - LOST:.0%}, " if most < len(lengths) else ""
    return (
        f"; of tokenization.max_length (now {max_length:,}) {enough}{lengths[0]:,} would keep all"
    )
