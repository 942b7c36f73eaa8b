"""How a row of a source is read: names, cells, the layout itself, and what the options ask for."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tasks.conversion.conversation.own_names import OwnNames
from tasks.conversion.layouts.alternatives import passed_over
from tasks.conversion.layouts.columns import Row, renamed
from tasks.conversion.layouts.json_cells import opened
from tasks.conversion.layouts.known import LAYOUTS, Layout
from tasks.conversion.options import CellOptions, Options, TextOptions
from tasks.conversion.preference.answers import Item
from tasks.conversion.preference.conversational import as_conversation
from tasks.conversion.preference.tool_turns import with_matched_turns

Read = Callable[[Row], Sequence[Item]]


def reader(
    layout: str, mapping: Mapping[str, str], options: Options | None = None
) -> Callable[[Row], Sequence[Any]]:
    """The function that reads a row in this layout, after the source's columns are renamed.

    It returns `Item`s, of a layout without options nothing but pairs.
    """
    known = LAYOUTS[layout]
    options = options or (known.options or Options)()
    read = _of_layout(known, options)
    if isinstance(options, TextOptions) and options.format == "conversational":
        read = _each(read, as_conversation)
    if options.tool_turns == "quarantine":
        read = _each(read, with_matched_turns)
    if not mapping and not known.only_if_mapped:
        return read
    passed = passed_over(layout, mapping).union(known.only_if_mapped)
    return lambda row: read(renamed(row, mapping, passed))


class Readers(dict[str, Callable[[Row], Sequence[Any]]]):
    """Source -> the function that reads its rows, made at its first row: a shard may hold rows of
    few among many sources."""

    def __init__(self, layouts: Mapping[str, tuple[str, Mapping[str, str], Options]]) -> None:
        super().__init__()
        self._layouts = layouts

    def __missing__(self, source: str) -> Callable[[Row], Sequence[Any]]:
        self[source] = read = reader(*self._layouts[source])
        return read


def _of_layout(known: Layout, options: Options) -> Read:
    """The layout's own reading with its options, after a source's names of roles and keys are
    replaced and its JSON cells parsed."""
    read: Read = known.read
    if known.options is not None:
        read = partial(known.read, options=options)
    stated = options.json_columns if isinstance(options, CellOptions) else None
    cells = known.json_columns if stated is None else tuple(stated)
    within: Read = (lambda row: read(opened(row, cells))) if cells else read
    names = OwnNames.of(options.turns, options.roles)
    return (lambda row: within(names.away(row, cells))) if names else within


def _each(read: Read, change: Callable[[Item], Item]) -> Read:
    return lambda row: [change(item) for item in read(row)]
