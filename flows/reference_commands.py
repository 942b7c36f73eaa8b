"""Commands that document the params file."""

import json
import textwrap
from dataclasses import asdict
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from flows.console import AsJson, errors_in_one_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flows.reference import Key

reference = typer.Typer()

WIDEST = 100


@reference.command()
def keys(
    prefix: Annotated[
        str, typer.Argument(help="Only keys below this: training, ingestion.sources, ...")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON Schema of the whole file, for editors.")
    ] = False,
) -> None:
    """List the keys of a params file: values, default and meaning of each."""
    from flows.reference import keys as keys_at
    from flows.reference import schema

    with errors_in_one_sentence():
        found = keys_at(prefix)
    if as_json:
        print(json.dumps(schema(), indent=2))
        return
    _print_keys(found)
    if any(not key.changes_result for key in found):
        print("\n* changes no result: nothing runs again for it")


@reference.command()
def layouts(
    name: Annotated[str | None, typer.Argument(help="Describe only this layout, in full.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the layouts of rows that can be read, or describe one of them."""
    from flows.reference import layout_reference
    from tasks.conversion.layouts.known import NAMES

    with errors_in_one_sentence():
        found = [layout_reference(one) for one in ([name] if name else NAMES)]
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
    elif name is None:
        for one in found:
            print(f"{one.name:17} {one.summary}")
    else:
        print(f"{found[0].meaning}\n\nIt reads: {', '.join(found[0].reads)}")
        if found[0].options:
            print("\nOptions:")
            _print_keys(found[0].options)


def _print_keys(found: "Iterable[Key]") -> None:
    width = min(get_terminal_size((WIDEST, 0)).columns, WIDEST)
    for key in found:
        default = f"   {key.default}" if key.default else ""
        print(f"{key.key}{'' if key.changes_result else ' *'}   {key.takes}{default}")
        if key.meaning:
            print(textwrap.indent(textwrap.fill(key.meaning, width - 4), "    "))
