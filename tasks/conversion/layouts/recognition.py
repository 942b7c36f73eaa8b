"""Which layout a source has: as declared, or the one that fits its first rows."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tasks.conversion.conversation.own_names import OwnNames
from tasks.conversion.conversation.turns import as_messages
from tasks.conversion.layouts import columns, json_cells, trl
from tasks.conversion.layouts.columns import Row, renamed
from tasks.conversion.layouts.declared import Declared, options_of
from tasks.conversion.layouts.hints import WHOLE_TABLE, hint
from tasks.conversion.layouts.known import LAYOUTS, NAMES, with_json
from tasks.conversion.layouts.unread import tell_asked, tell_inputs, tell_unread, unread_columns
from tasks.conversion.options import CellOptions
from tasks.conversion.preference.shapes import is_messages
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, meant, shown, some

MOST_NAMED = 60
"""Columns that a message names at most."""


def recognise(
    source: str,
    layout: str | None,
    mapping: Mapping[str, str],
    rows: Sequence[Row],
    declared: Declared | None = None,
    places: Sequence[str] = (),
) -> str:
    """The layout of a source: as declared, or the only one that fits most of its first rows.

    Of flat rows it is the one that parses the columns whose cells hold messages (`json_cells`). The
    log names the columns that are not read, and warns of a system among them, or of prompts that
    are lost (`unread`). `places` names the file and row of each of the rows.

    Raises:
        DataError: no layout fits, or several do, or a mapped column is in none of the rows; or the
            cells of a column are what Python prints of messages, or most are messages as JSON, but
            not all, and no option says what they are.
    """
    seen = _columns(rows)
    if rows:
        _check_mapping(source, mapping, seen)
    name = layout or ("columns" if mapping else _only_fitting(source, rows))
    options = options_of(source, name, declared or {})
    unread = unread_columns(name, options, mapping, seen)
    tell_unread(source, name, unread, rows)
    if mapping.get("prompt") == "instruction" and "input" in unread:
        tell_inputs(source, rows)
    if name not in ("trl", "columns"):
        return name
    named = _named(rows, mapping)
    if names := OwnNames.of(options.turns, options.roles):
        named = [names.away(row, json_cells.COLUMNS) for row in named]
    _check_not_printed(source, named)
    stated = options.json_columns if isinstance(options, CellOptions) else None
    if stated is None and (odd := json_cells.odd(named)):
        raise _odd_cell(source, name, mapping, odd, places)
    holding = json_cells.holding(named)
    cells = holding if stated is None else stated
    tell_asked(source, name, unread, rows, [_opened(row, cells) for row in named])
    return with_json(name, holding)


def _check_not_printed(source: str, rows: Sequence[Row]) -> None:
    """Raises DataError where the cells of a column are what Python prints of messages."""
    if printed := json_cells.printed(rows):
        raise DataError(
            f"source {source!r}: the cells of {' and '.join(printed)} hold messages as Python "
            "prints them, [{'role': ...; expected JSON: write the file again with json.dumps "
            "around each list of messages, or as JSONL or Parquet"
        )


def _opened(row: Row, cells: Sequence[str]) -> Row:
    """The row with the messages that these cells hold; empty where they hold none."""
    try:
        return json_cells.opened(row, cells)
    except Unusable:
        return {}


def _odd_cell(
    source: str,
    layout: str,
    mapping: Mapping[str, str],
    odd: json_cells.Odd,
    places: Sequence[str],
) -> DataError:
    column = mapping.get(odd.column, odd.column)
    place = places[odd.place] if places else f"row {odd.place + 1} of these"
    return DataError(
        f"source {source!r}: {odd.messages} of the first {odd.texts} texts in column "
        f"{shown(column, 40)} are messages as JSON, but in {place} found {odd.what}; expected "
        '[{"role": ..., "content": ...}, ...] in all of them: correct the row. Or say which '
        f"columns hold messages with layout: {layout}, options: {{json_columns: "
        f"[{', '.join(odd.alike)}]}}: what is none is then quarantined as bad_json; with "
        "json_columns: [] all cells are read as texts"
    )


def _only_fitting(source: str, rows: Sequence[Row]) -> str:
    if not rows:
        raise DataError(f"source {source!r}: no row to recognise a layout by; add rows")
    seen = _columns(rows)
    if not seen:
        raise DataError(
            f"source {source!r}: its first {len(rows)} rows have no column: each is {{}}; expected "
            "objects with columns, such as prompt, chosen and rejected: write the rows again"
        )
    fitting = {name: sum(LAYOUTS[name].fits(set(seen), row) for row in rows) for name in NAMES}
    candidates = [name for name, count in fitting.items() if 2 * count > len(rows)]
    if len(candidates) == 1:
        return candidates[0]
    listed = _listed(seen)
    if candidates:
        raise DataError(
            f"source {source!r}: several layouts fit the columns {listed}: "
            f"{', '.join(candidates)}; name one with 'layout'"
        )
    if len(rows) == 1 and _is_table(rows[0]):
        advice = WHOLE_TABLE
    else:
        advice = hint(seen, _asked(rows))
        if not advice and len(rows) == 1 and _holds_rows(rows[0]):
            advice = WHOLE_TABLE
    raise DataError(
        f"source {source!r}: no layout fits the columns {listed}. {advice}Known are "
        f"{', '.join(NAMES)} (`reward-pipeline layouts` tells what each reads): name one with "
        "'layout' (two answers and a label: pairwise_label; answers with scores: scored), or map "
        "flat columns, for example columns: {prompt: question, chosen: better, rejected: worse}"
    )


def _asked(rows: Sequence[Row]) -> list[str]:
    """The columns that hold prompts, under whatever name."""
    return [name for row in rows for name, value in row.items() if trl.is_asked(name, value)]


def _is_table(row: Row) -> bool:
    """Whether it holds nothing but lists and objects, and no messages."""
    values = row.values()
    nested = all(isinstance(value, list | dict) for value in values)
    return nested and not any(is_messages(as_messages(value)) for value in values)


def _holds_rows(row: Row) -> bool:
    """Whether one of its values is a list of objects."""
    lists = [cast(list[Any], value) for value in row.values() if isinstance(value, list)]
    return any(isinstance(item, dict) for values in lists for item in values[:1])


def _listed(columns: Sequence[str]) -> str:
    """The names of columns; of very many, as where ids are keys, the first."""
    return some([shown(column, 40) for column in columns], MOST_NAMED)


def _columns(rows: Sequence[Row]) -> list[str]:
    """All columns, in the order in which they come."""
    return list(dict.fromkeys(column for row in rows for column in row))


def _named(rows: Sequence[Row], mapping: Mapping[str, str]) -> list[Row]:
    """The rows under our names; one that lacks a column is empty, so that all keep their places."""
    named: list[Row] = []
    for row in rows:
        try:
            named.append(renamed(row, mapping, columns.ONLY_IF_MAPPED) if mapping else row)
        except Unusable:
            named.append({})
    return named


def _check_mapping(source: str, mapping: Mapping[str, str], seen: Sequence[str]) -> None:
    for name, column in mapping.items():
        if column not in seen and columns.head_of(column) not in seen:
            raise DataError(
                f"source {source!r}: columns.{name} names {column!r}, which none of its first rows "
                f"has{meant(column, seen)} Found are {_listed(seen)}"
            )
