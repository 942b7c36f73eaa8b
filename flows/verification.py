"""The command `verify-model`: what it refuses beforehand, and the table that it prints."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tasks.errors import ModelError

if TYPE_CHECKING:
    from tasks.training.handover.contract import Verdict


def check_asked(directory: Path, device: str) -> None:
    """Refuses what cannot be verified; what is wrong with the contract is the replay's to tell.

    Raises:
        ModelError: there is no such directory or device.
    """
    from tasks.training.model.device import check_device

    if not directory.is_dir():
        found = "is no directory" if directory.exists() else "does not exist"
        raise ModelError(f"{directory} {found}; expected the directory of a reward model")
    try:
        check_device(device)
    except ValueError as error:
        raise ModelError(str(error)) from error


def print_verdicts(directory: Path, verdicts: Sequence["Verdict"]) -> None:
    """Prints every probe with its verdict, and the sum of them."""
    table = Table(title=str(directory), title_justify="left", box=None)
    for name in ("probe", "verdict", "what differs"):
        table.add_column(name, overflow="fold")
    for verdict in verdicts:
        table.add_row(
            verdict.probe, "DIFFERS" if verdict.difference else "ok", verdict.difference or ""
        )
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(table)
    broken = sum(verdict.difference is not None for verdict in verdicts)
    console.print(f"{len(verdicts)} probes, {broken} differ")
