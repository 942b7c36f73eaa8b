"""What a params file says of a source's layout, checked before any work."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tasks.conversion.layouts.known import LAYOUTS, NAMES, columns_of
from tasks.conversion.options import Options
from tasks.errors import ParamsError, meant, shown

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
            f"options.{'.'.join(map(str, e['loc']))}: "
            + (
                f"unknown key{meant(str(e['loc'][-1]), kind.model_fields, str)}"
                if e["type"] == "extra_forbidden"
                else f"{e['msg']}, found {shown(e['input'])}"
            )
            for e in error.errors()
        )
        raise ParamsError(
            f"source {source!r}: {problems} (options of layout {layout!r}: {known})"
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
        raise ParamsError(
            f"source {source!r}: layout {shown(layout)} is unknown{meant(layout, NAMES)} "
            f"Known are {', '.join(NAMES)}; leave it out to have it recognised"
        )
    options = options_of(source, layout, declared or {})
    known = columns_of(layout or "columns", options)
    for name in mapping:
        if name not in known:
            raise _unknown(source, layout, name, known)


def _unknown(source: str, layout: str | None, name: str, known: Sequence[str]) -> ParamsError:
    """The error of a mapped name that the layout would not read."""
    to = repr(layout) if layout else "'columns', which a mapping without 'layout' means"
    others = [other for other in NAMES if name in LAYOUTS[other].reads]
    hint = meant(name, known) or "."
    if others:
        read_by = (
            f"layouts {', '.join(others)} read" if others[1:] else f"only layout {others[0]} reads"
        )
        hint = f"; {read_by} it: name one that fits with 'layout'."
    return ParamsError(
        f"source {source!r}: columns.{name} is unknown to layout {to}{hint} It reads "
        f"{', '.join(known)}, each from the column of the source that 'columns' names for it"
    )
