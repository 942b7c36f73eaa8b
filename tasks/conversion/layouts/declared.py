"""What a params file says of a source's layout, checked before any work."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from tasks.conversion.layouts import columns
from tasks.conversion.layouts.known import LAYOUTS, NAMES
from tasks.conversion.options import Options
from tasks.errors import ParamsError, shown

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
    if layout is not None and layout not in NAMES:
        near = get_close_matches(layout, NAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ParamsError(
            f"source {source!r}: layout {shown(layout)} is unknown{hint} "
            f"Known are {', '.join(NAMES)}; leave it out to have it recognised"
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
