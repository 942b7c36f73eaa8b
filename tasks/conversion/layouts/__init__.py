"""Layouts: how the rows of a source become preference pairs.

A layout is one file with two functions and a tuple, listed in `known.LAYOUTS`:

    pairs(row) -> list[Pair]      what the row holds, values as they are; the checks come after
    fits(columns, row) -> bool    whether a row of these columns looks like this layout
    READ                          the columns that `pairs` looks at: no other one can be mapped

`pairs` raises `Unusable` for a row that it cannot read; it never returns an empty list. A layout
that takes options has `read(row, options)` in its place, and may find more than pairs: an
`Unusable` for a part of the row (a tie in a ranking), or an `Answer` that waits for others, of
rows to come: such a layout `joins` rows. Where many rows can be told without a `Pair`, `sides(row)`
is a quicker way (`known.Layout`). To add a layout, write the file, with a worked row in its
docstring, and list it there.
"""

from tasks.conversion.layouts.declared import Declared, check_declared, options_of
from tasks.conversion.layouts.known import LAYOUTS, NAMES, Layout
from tasks.conversion.layouts.reading import Readers, reader
from tasks.conversion.layouts.recognition import recognise

__all__ = [
    "LAYOUTS",
    "NAMES",
    "Declared",
    "Layout",
    "Readers",
    "check_declared",
    "options_of",
    "reader",
    "recognise",
]
