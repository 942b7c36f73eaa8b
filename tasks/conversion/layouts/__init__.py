"""Layouts: how the rows of a source become preference pairs.

A layout is one file with two functions, listed in `LAYOUTS`:

    pairs(row) -> list[Pair]      what the row holds, values as they are; the checks come after
    fits(columns, row) -> bool    whether a row of these columns looks like this layout

`pairs` raises `Unusable` for a row that it cannot read; it never returns an empty list. A layout
that takes options has `read(row, options)` in its place, and may find more than pairs: an
`Unusable` for a part of the row (a tie in a ranking), or an `Answer` that waits for others, of
rows to come: such a layout `joins` rows. To add a layout, write the file, with a worked row in its
docstring, and list it here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from tasks.conversion.answers import Item, as_conversation
from tasks.conversion.layouts import (
    arena,
    columns,
    context_ranking,
    helpsteer,
    hh_rlhf,
    openai_dpo,
    pairwise_label,
    rewardbench,
    rewardbench2,
    scored,
    sharegpt_ranking,
    shp,
    stepwise,
    trl,
    typed_parts,
    ultrafeedback,
    unpaired,
)
from tasks.conversion.layouts.columns import Row, renamed
from tasks.conversion.options import LabelOptions, Options, TextOptions
from tasks.errors import DataError, ParamsError, shown

Sides = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Layout:
    """One way in which a row holds its pairs."""

    read: Callable[..., Sequence[Item]]
    fits: Callable[[set[str], Row], bool]
    options: type[Options] | None = None
    """What `read` takes beside the row; None: nothing."""
    joins: bool = False
    """Whether a pair may need several rows, wherever they stand."""
    sides: Callable[[Row], Sides | None] | None = None
    """Prompt, chosen and rejected of a row that holds these and nothing else that is read: a way
    round `read` for rows that need no repair."""


LAYOUTS = {
    "trl": Layout(trl.pairs, trl.fits, sides=trl.sides),
    "hh_rlhf": Layout(hh_rlhf.pairs, hh_rlhf.fits),
    "columns": Layout(columns.pairs, columns.fits),
    "sharegpt_ranking": Layout(sharegpt_ranking.pairs, sharegpt_ranking.fits),
    "openai_dpo": Layout(openai_dpo.pairs, openai_dpo.fits),
    "typed_parts": Layout(typed_parts.pairs, typed_parts.fits),
    "context_ranking": Layout(context_ranking.pairs, context_ranking.fits),
    "arena": Layout(arena.pairs, arena.fits),
    "ultrafeedback": Layout(
        ultrafeedback.read, ultrafeedback.fits, ultrafeedback.UltrafeedbackOptions
    ),
    "helpsteer": Layout(helpsteer.read, helpsteer.fits, helpsteer.HelpsteerOptions, joins=True),
    "shp": Layout(shp.read, shp.fits, shp.ShpOptions),
    "unpaired": Layout(unpaired.read, unpaired.fits, LabelOptions, joins=True),
    "stepwise": Layout(stepwise.read, stepwise.fits, stepwise.StepwiseOptions, joins=True),
    "pairwise_label": Layout(
        pairwise_label.read, pairwise_label.fits, pairwise_label.PairwiseLabelOptions
    ),
    "scored": Layout(scored.read, scored.fits, scored.ScoredOptions, joins=True),
    "rewardbench": Layout(rewardbench.pairs, rewardbench.fits),
    "rewardbench2": Layout(rewardbench2.read, rewardbench2.fits, LabelOptions),
}

Declared = Mapping[str, Any]
"""A source's `options`, as the params file has them."""


def options_of(source: str, layout: str | None, declared: Declared) -> Options:
    """The options of a source's layout, checked.

    Raises:
        ParamsError: an option is unknown, wrong or missing, or there are options but no layout.
    """
    if layout is None:
        if declared:
            raise ParamsError(
                f"source {source!r}: found options {', '.join(map(shown, declared))} without a "
                "layout; name the layout that they are for with 'layout'"
            )
        return Options()
    kind = LAYOUTS[layout].options or Options
    try:
        options = kind.model_validate(dict(declared))
    except ValidationError as error:
        known = ", ".join(kind.model_fields) or "none"
        problems = "; ".join(
            f"options.{'.'.join(map(str, e['loc']))}: {e['msg']}, found {shown(e['input'])}"
            for e in error.errors()
        )
        raise ParamsError(
            f"source {source!r}: {problems}. Options of layout {layout!r}: {known}"
        ) from None
    if options.missing():
        raise ParamsError(f"source {source!r}: layout {layout!r} needs {options.missing()}")
    return options


def check_declared(
    source: str,
    layout: str | None,
    mapping: Mapping[str, str],
    declared: Declared | None = None,
) -> None:
    """Raises ParamsError when `layout`, `columns` or `options` of a source say something wrong."""
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
    options_of(source, layout, declared or {})


def reader(
    layout: str, mapping: Mapping[str, str], options: Options | None = None
) -> Callable[[Row], Sequence[Any]]:
    """The function that reads a row in this layout, after the source's columns are renamed.

    It returns `Item`s, of a layout without options nothing but pairs.
    """
    read = _with_options(LAYOUTS[layout], options)
    if layout == "columns":
        return lambda row: read(renamed(row, mapping, columns.ONLY_IF_MAPPED))
    if mapping:
        return lambda row: read(renamed(row, mapping))
    return read


def _with_options(layout: Layout, options: Options | None) -> Callable[[Row], Sequence[Item]]:
    read = layout.read
    if layout.options is None:
        return read
    options = options or layout.options()
    if isinstance(options, TextOptions) and options.format == "conversational":
        return lambda row: [as_conversation(item) for item in read(row, options)]
    return lambda row: read(row, options)


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
