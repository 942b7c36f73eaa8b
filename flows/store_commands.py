"""Commands about the store of artifacts: check its files, free what is no longer needed."""

from collections.abc import Collection, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.console import EXIT_FAILED, Root, errors_in_one_sentence

if TYPE_CHECKING:
    from tasks.artifact.inventory import Verdict

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
    """Check the files of every artifact against its record. Exit code 1: something is damaged, and
    was not moved."""
    from tasks.artifact import Store
    from tasks.artifact.inventory import verify as verify_all
    from tasks.artifact.repair import repair as repair_all

    with errors_in_one_sentence():
        store = Store(root.resolve() / "data")
        if repair:
            verdicts, moved = repair_all(store, deep=deep)
        else:
            verdicts, moved = verify_all(store, deep=deep), set[Path]()
    if not _told(verdicts, moved, repair):
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


def _told(verdicts: "Sequence[Verdict]", moved: Collection[Path], repair: bool) -> bool:
    """Prints every verdict and what to do; whether the store is sound now."""
    left = " (left: somebody is building it, or it is no artifact of this store)" if repair else ""
    for path, problem, closed in map(astuple, verdicts):
        word = "ok" if problem is None else "CLOSED" if closed else "DAMAGED"
        told = (problem or "").removeprefix("DAMAGED ")
        done = " (moved)" if path in moved else left if word == "DAMAGED" else ""
        print(f"{word:<7} {path}  {told}{done}".rstrip())
    bad = [verdict for verdict in verdicts if verdict.problem]
    damaged = sum(not verdict.closed for verdict in bad)
    print(f"{len(verdicts)} artifacts, {damaged} damaged")
    if moved:
        print(f"moved {len(moved)} to data/.trash; the next run builds what it needs of them again")
    elif damaged and not repair:
        print("`verify --repair` moves them to data/.trash; the next run builds them again")
    return len(bad) == len(moved)
