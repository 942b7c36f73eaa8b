"""Commands about registered versions: their aliases are moved by hand, old ones retired."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.console import AsJson, Root, told_in_one_sentence

if TYPE_CHECKING:
    from tasks.registration.aliases.by_hand import Moved
    from tasks.registration.params import RegistrationParams

aliases = typer.Typer()

Model = Annotated[str, typer.Argument(help="The registered model's name.")]
Why = Annotated[str, typer.Option(help="The reason; it stays in the alias's history.")]
TrackingUri = Annotated[str | None, typer.Option(help="Another MLflow than mlruns/.")]


@aliases.command()
def promote(
    model: Model,
    version: Annotated[int, typer.Argument(help="Its version.")],
    why: Why,
    alias: Annotated[str, typer.Option(help="champion, challenger, ...")] = "champion",
    despite_gate: Annotated[bool, typer.Option(help="Also one that the gate rejected.")] = False,
    tracking_uri: TrackingUri = None,
    root: Root = Path(),
) -> None:
    """Give an alias to a version, once its files and its score contract are proved again."""
    from tasks.registration.aliases.promotion import promote as promoted

    with told_in_one_sentence():
        params = _registry_of(model, tracking_uri)
        moved = promoted(
            params, root.resolve(), version, why=why, alias=alias, despite_gate=despite_gate
        )
    _tell(moved)


@aliases.command()
def rollback(
    model: Model,
    why: Why,
    from_version: Annotated[
        int | None,
        typer.Option(
            "--from", help="The champion to go back from; needed to go further than one back."
        ),
    ] = None,
    tracking_uri: TrackingUri = None,
    root: Root = Path(),
) -> None:
    """Make the former champion champion again, once it is proved again. Asked twice, it is one
    rollback; --from goes one further."""
    from tasks.registration.aliases.rollback import rollback as rolled_back

    with told_in_one_sentence():
        params = _registry_of(model, tracking_uri)
        moved = rolled_back(params, root.resolve(), why=why, from_version=from_version)
    _tell(moved)


@aliases.command("alias-history")
def alias_history(
    model: Model,
    tracking_uri: TrackingUri = None,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Show who moved which alias, from where to where, when and why."""
    from dataclasses import asdict

    from tasks.registration.aliases.promotion import moves

    with told_in_one_sentence():
        made = moves(_registry_of(model, tracking_uri), root.resolve())
    if as_json:
        print(json.dumps([asdict(move) for move in made]))
        return
    for m in made:
        print(f"{m.when}  {m.alias}: {m.previous} -> {m.version}  {m.how} by {m.who}: {m.why}")


@aliases.command()
def retire(
    model: Model,
    keep: Annotated[int, typer.Option(min=1, help="Newest versions that stay.")] = 10,
    dry_run: Annotated[bool, typer.Option(help="Tell, and take nothing.")] = False,
    tracking_uri: TrackingUri = None,
    root: Root = Path(),
) -> None:
    """Delete old versions and their models' files; what has an alias stays, and the champion that a
    rollback would go back to. Then gc frees what they were made from."""
    from tasks.registration.retirement import retire as retired_by

    with told_in_one_sentence():
        params = _registry_of(model, tracking_uri)
        retired = retired_by(params, root.resolve(), keep=keep, dry_run=dry_run)
    for entry in retired:
        print(f"{entry.bytes:>14,} bytes  {model} version {entry.version}")
    would = "would free" if dry_run else "freed"
    print(f"{would} {sum(e.bytes for e in retired):,} bytes of {len(retired)} versions")


def _registry_of(model: str, tracking_uri: str | None) -> "RegistrationParams":
    from pydantic import ValidationError

    from flows.params_faults import sentences
    from tasks.errors import ParamsError
    from tasks.registration.params import RegistrationParams

    try:
        return RegistrationParams(model_name=model, tracking_uri=tracking_uri)
    except ValidationError as error:
        raise ParamsError("; ".join(sentences(RegistrationParams, error))) from error


def _tell(moved: "Moved") -> None:
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
