"""Commands about registered versions: move their aliases by hand, retire old versions."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.console import AsJson, Root, errors_in_one_sentence
from flows.registry_options import TrackingUri, registry_of

if TYPE_CHECKING:
    from tasks.registration.aliases.by_hand import Moved

aliases = typer.Typer()

Model = Annotated[str, typer.Argument(help="The registered model's name.")]
Why = Annotated[str, typer.Option(help="The reason, for the alias's history.")]


@aliases.command()
def promote(
    model: Model,
    version: Annotated[int, typer.Argument(help="The version that gets the alias.")],
    why: Why,
    alias: Annotated[str, typer.Option(help="The alias: champion, challenger, ...")] = "champion",
    despite_gate: Annotated[
        bool, typer.Option(help="Allow a version that the gate rejected.")
    ] = False,
    tracking_uri: TrackingUri = None,
    root: Root = Path(),
) -> None:
    """Give an alias to a version, after checking its files and its score contract again."""
    from tasks.registration.aliases.promotion import promote as promoted

    with errors_in_one_sentence():
        params = registry_of(tracking_uri, model)
        moved = promoted(
            params, root.resolve(), version, why=why, alias=alias, despite_gate=despite_gate
        )
    _print_moved(moved)


@aliases.command()
def rollback(
    model: Model,
    why: Why,
    from_version: Annotated[
        int | None,
        typer.Option("--from", help="The champion to roll back; needed to go back more than once."),
    ] = None,
    tracking_uri: TrackingUri = None,
    root: Root = Path(),
) -> None:
    """Give the alias champion back to the previous champion, after checking it again. Repeating the
    command changes nothing; --from goes back one further."""
    from tasks.registration.aliases.rollback import rollback as rolled_back

    with errors_in_one_sentence():
        params = registry_of(tracking_uri, model)
        moved = rolled_back(params, root.resolve(), why=why, from_version=from_version)
    _print_moved(moved)


@aliases.command("alias-history")
def alias_history(
    model: Model,
    tracking_uri: TrackingUri = None,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Show every move of an alias: when, from which version to which, by whom and why."""
    from dataclasses import asdict

    from tasks.registration.aliases.promotion import moves

    with errors_in_one_sentence():
        history = moves(registry_of(tracking_uri, model), root.resolve())
    if as_json:
        print(json.dumps([asdict(move) for move in history]))
        return
    for m in history:
        print(f"{m.when}  {m.alias}: {m.previous} -> {m.version}  {m.how} by {m.who}: {m.why}")


@aliases.command()
def retire(
    model: Model,
    keep: Annotated[int, typer.Option(min=1, help="Number of newest versions to keep.")] = 10,
    dry_run: Annotated[bool, typer.Option(help="Only show what would be deleted.")] = False,
    tracking_uri: TrackingUri = None,
    root: Root = Path(),
) -> None:
    """Delete old versions and their models' files, except versions with an alias and the champion
    that a rollback would restore. gc then frees the artifacts that they were made from."""
    from tasks.registration.retirement import retire as retired_by

    with errors_in_one_sentence():
        params = registry_of(tracking_uri, model)
        retired = retired_by(params, root.resolve(), keep=keep, dry_run=dry_run)
    for entry in retired:
        print(f"{entry.bytes:>14,} bytes  {model} version {entry.version}")
    would = "would free" if dry_run else "freed"
    print(f"{would} {sum(e.bytes for e in retired):,} bytes of {len(retired)} versions")


def _print_moved(moved: "Moved") -> None:
    before = "nobody" if moved.previous is None else f"version {moved.previous}"
    if moved.already:
        print(f"{moved.name}: {moved.alias} is version {moved.version} already (before: {before})")
        print(f"{moved.proof}; --from {moved.version} goes one further back")
        return
    if moved.previous == moved.version:
        print(f"{moved.name}: {moved.alias} was version {moved.version} already: nothing was moved")
    else:
        print(f"{moved.name}: {moved.alias} is version {moved.version} (before: {before})")
    print(f"proved: {moved.proof}")
