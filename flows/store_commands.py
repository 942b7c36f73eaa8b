"""Commands about the store of artifacts: check its files, free what is no longer needed."""

from pathlib import Path
from typing import Annotated

import typer

from flows.console import EXIT_FAILED, Root, errors_in_one_sentence

store = typer.Typer()


@store.command()
def verify(
    root: Root = Path(),
    deep: Annotated[
        bool, typer.Option(help="Read every file, even if its time and size are unchanged.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(help="Move what is damaged to data/.trash; the next run builds it again."),
    ] = False,
) -> None:
    """Check the files of every artifact, and of every version registered from here, against what
    was recorded of them. Exit code 1: something is wrong, and was not moved."""
    from flows.store_verdicts import print_verdicts, verify_store

    with errors_in_one_sentence():
        found = verify_store(root.resolve(), deep=deep, repair=repair)
    print_verdicts(found)
    if not found.sound:
        raise typer.Exit(EXIT_FAILED)


@store.command()
def gc(
    root: Root = Path(),
    keep_runs: Annotated[
        int, typer.Option(min=1, help="Newest runs to keep: so many finished, and so many stopped.")
    ] = 5,
    dry_run: Annotated[bool, typer.Option(help="Only show what would be done.")] = False,
) -> None:
    """Move artifacts that no recent run or registered version needs to data/.trash; delete what has
    been there for a day."""
    from flows.garbage_collection import collect_garbage, print_swept

    with errors_in_one_sentence():
        swept = collect_garbage(root.resolve(), keep_runs=keep_runs, dry_run=dry_run)
    print_swept(swept, dry_run)
