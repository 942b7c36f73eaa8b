"""The warning about sources that tokenization left many pairs out of."""

from collections.abc import Sequence

from tasks.artifact import Ledger
from tasks.artifact.ledger import Account
from tasks.errors import shown, some

LOST = 0.05
"""Share of a source's pairs from which on a loss is a warning."""


def losses(ledger: Ledger, max_length: int | None, too_long: Sequence[int]) -> list[str]:
    """One sentence, if any source lost a share of `LOST` or more, with all such sources, the
    largest share first. (If so many of all pairs are lost, some source has lost as many.)

    `too_long` are the tokens of the longer sides of pairs that have more than `max_length`.
    """
    lost = {s: a for s, a in ledger.accounts.items() if a.dropped.total() >= LOST * a.rows_in > 0}
    if not lost:
        return []
    worst = sorted(lost.items(), key=lambda each: -each[1].dropped.total() / each[1].rows_in)
    told = some([_told(source, account) for source, account in worst])
    total = sum(ledger.dropped.values())
    advice = _advice(ledger.rows_in, max_length, too_long) if too_long else ""
    return [f"tokenization left out {total:,} of {ledger.rows_in:,} pairs: {told}{advice}"]


def _told(source: str, account: Account) -> str:
    n = account.dropped.total()
    count = f"all {n:,}" if n == account.rows_in else f"{n:,} of {account.rows_in:,}"
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in account.dropped.most_common() if n)
    return f"{count} of source {shown(source)} ({reasons})"


def _advice(pairs: int, max_length: int | None, too_long: Sequence[int]) -> str:
    """What to set; a limit is enough for 95 % where no more pairs than `LOST` are longer."""
    lengths, most = sorted(too_long, reverse=True), int(LOST * pairs)
    enough = f"{lengths[most]:,} would keep {1 - LOST:.0%}, " if most < len(lengths) else ""
    return (
        f"; of tokenization.max_length (now {max_length:,}) {enough}{lengths[0]:,} would keep all"
    )
