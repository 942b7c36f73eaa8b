"""Layouts: how the rows of a source become preference pairs.

A layout is one file with two functions, listed in `LAYOUTS`:

    pairs(row) -> list[Pair]      what the row holds, values as they are; the checks come after
    fits(columns, row) -> bool    whether a row of these columns looks like this layout

`pairs` raises `Unusable` for a row that it cannot read; it never returns an empty list. To add a
layout, write the file, with a worked row in its docstring, and list it here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from tasks.conversion.layouts import (
    columns,
    hh_rlhf,
    openai_dpo,
    sharegpt_ranking,
    trl,
    typed_parts,
)
from tasks.conversion.layouts.columns import Row, renamed
from tasks.conversion.pair import Pair
from tasks.errors import DataError, ParamsError, shown


@dataclass(frozen=True)
class Layout:
    """One way in which a row holds its pairs."""

    pairs: Callable[[Row], list[Pair]]
    fits: Callable[[set[str], Row], bool]


LAYOUTS = {
    "trl": Layout(trl.pairs, trl.fits),
    "hh_rlhf": Layout(hh_rlhf.pairs, hh_rlhf.fits),
    "columns": Layout(columns.pairs, columns.fits),
    "sharegpt_ranking": Layout(sharegpt_ranking.pairs, sharegpt_ranking.fits),
    "openai_dpo": Layout(openai_dpo.pairs, openai_dpo.fits),
    "typed_parts": Layout(typed_parts.pairs, typed_parts.fits),
}


def check_declared(source: str, layout: str | None, mapping: Mapping[str, str]) -> None:
    """Raises ParamsError when a source's `layout` or `columns` name something unknown."""
    if layout is not None and layout not in LAYOUTS:
        near = get_close_matches(layout, LAYOUTS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ParamsError(
            f"source {source!r}: layout {shown(layout)} is unknown{hint} "
            f"Known are {', '.join(LAYOUTS)}; leave it out to have it recognised"
        )
    if layout in (None, "columns"):
        for name in mapping:
            if name not in columns.FIELDS:
                near = get_close_matches(name, columns.FIELDS, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ParamsError(
                    f"source {source!r}: columns.{name} is unknown{hint} Known are "
                    f"{', '.join(columns.FIELDS)}, each with the name of a column of the source"
                )


def reader(layout: str, mapping: Mapping[str, str]) -> Callable[[Row], list[Pair]]:
    """The function that reads a row in this layout, after the source's columns are renamed."""
    pairs = LAYOUTS[layout].pairs
    if layout == "columns":
        return lambda row: pairs(renamed(row, mapping, columns.ONLY_IF_MAPPED))
    if mapping:
        return lambda row: pairs(renamed(row, mapping))
    return pairs


def recognise(
    source: str, layout: str | None, mapping: Mapping[str, str], rows: Sequence[Row]
) -> str:
    """The layout of a source: as declared, or the only one that fits most of its first rows.

    Raises:
        DataError: no layout fits, or several do, or a mapped column is in none of the rows.
    """
    seen = {column: None for row in rows for column in row}
    if rows:
        _check_mapping(source, mapping, list(seen))
    if layout is not None:
        return layout
    if mapping:
        return "columns"
    if not rows:
        raise DataError(f"source {source!r}: no row to recognise a layout by; add rows")
    names = set(seen)
    fitting = {
        name: sum(candidate.fits(names, row) for row in rows) for name, candidate in LAYOUTS.items()
    }
    candidates = [name for name, count in fitting.items() if 2 * count > len(rows)]
    if len(candidates) == 1:
        return candidates[0]
    listed = ", ".join(shown(column, 40) for column in seen)
    if candidates:
        raise DataError(
            f"source {source!r}: several layouts fit the columns {listed}: "
            f"{', '.join(candidates)}; name one with 'layout'"
        )
    raise DataError(
        f"source {source!r}: no layout fits the columns {listed}. Known are {', '.join(LAYOUTS)}; "
        "name one with 'layout', or map flat columns, for example columns: "
        "{prompt: question, chosen: better, rejected: worse}"
    )


def _check_mapping(source: str, mapping: Mapping[str, str], seen: Sequence[str]) -> None:
    for name, column in mapping.items():
        if column not in seen:
            near = get_close_matches(column, seen, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise DataError(
                f"source {source!r}: columns.{name} names {column!r}, which none of its first rows "
                f"has{hint} Found are {', '.join(shown(c, 40) for c in seen)}"
            )
