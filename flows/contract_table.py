"""The replay of a score contract as a table: one line per probe, and what differs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tasks.training.handover.contract import Verdict


def print_verdicts(directory: Path, verdicts: Sequence["Verdict"]) -> None:
    """Prints every probe with its verdict, and the sum of them."""
    table = Table(title=str(directory), title_justify="left", box=None)
    for name in ("probe", "verdict", "what differs"):
        table.add_column(name, overflow="fold")
    for verdict in verdicts:
        table.add_row(
            verdict.probe, "DIFFERS" if verdict.difference else "ok", verdict.difference or ""
        )
    console = Console(highlight=False, markup=False)
    console.print(table)
    broken = sum(verdict.difference is not None for verdict in verdicts)
    console.print(f"{len(verdicts)} probes, {broken} differ")
