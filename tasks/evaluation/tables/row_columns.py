"""The table of row columns: what the sources' own rows say of each scored pair.

    evaluation: {slice_by: [category, meta.level]}

    pair_id | row.category | row.meta.level         a label per column, one row per scored pair

In: the table of texts, which tells every pair's file and row, and the rows of ingestion. Conversion
need not know the columns, so that to look at other ones trains nothing again. Of a pair that
several rows make, it is the row that the pair names.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.artifact import Artifact, digest_json
from tasks.conversion.layouts.columns import at_path
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, meant, some
from tasks.evaluation.tables.scores import Strings
from tasks.ingestion import iter_rows

NONE, EMPTY = "(none)", "(empty)"
"""Labels of null or a column that the row lacks, and of text that is empty or only spaces."""
LABEL_CHARACTERS = 60
DIGEST_CHARACTERS = 8
PREFIX = "row."
PLACE = ("source", "file", "row")
"""The columns that say where a pair's row stands."""
Place = tuple[str, str, int]
Row = dict[str, Any]


def row_column_table(ingestion: Artifact, texts: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The labels of every pair of `texts`, in its order.

    Raises:
        DataError: a column stands in none of the rows.
    """
    labels = labels_at(ingestion, places_of(texts), columns)
    named = {
        f"{PREFIX}{column}": pa.array([each[i] for each in labels], pa.string())
        for i, column in enumerate(columns)
    }
    return pa.table({"pair_id": texts["pair_id"]} | named)


def places_of(pairs: pa.Table) -> list[Place]:
    """Where the row of every pair stands."""
    return [*zip(*(pairs[name].to_pylist() for name in PLACE), strict=True)]


def labels_at(
    ingestion: Artifact, places: Sequence[Place], columns: Sequence[str]
) -> list[list[str]]:
    """A label per column of the row at each place, in the order of `places`.

    `columns` are names or dotted paths, as in a source's `columns`.

    Raises:
        DataError: a column stands in none of the rows.
    """
    found: dict[Place, list[str]] = {}
    met: set[str] = set()
    known: dict[str, None] = {}
    for place, row in _rows_at(ingestion, set(places)):
        known |= dict.fromkeys(row)
        values = _values(row, columns)
        met.update(values)
        found[place] = [label_of(values.get(column)) for column in columns]
    if absent := [column for column in columns if column not in met]:
        raise DataError(
            f"evaluation.slice_by: no row of a held-out pair has {absent[0]!r}; found the columns "
            f"{some([*known], 12) or 'none'}{meant(absent[0], known)}"
        )
    return [found[place] for place in places]


def _rows_at(ingestion: Artifact, places: set[Place]) -> Iterator[tuple[Place, Row]]:
    numbers = {row for _, _, row in places}
    for batch in iter_rows(ingestion):
        for i, row in enumerate(batch["row"].to_pylist()):
            if row in numbers:
                place = (batch["source"][i].as_py(), batch["file"][i].as_py(), row)
                if place in places:
                    yield place, json.loads(batch["raw"][i].as_py())


def _values(row: Row, columns: Sequence[str]) -> Row:
    """What stands in those of the columns that the row has."""
    found: Row = {}
    for column in columns:
        with suppress(Unusable):
            found[column] = at_path(row, column, null_ok=True)
    return found


def label_of(value: Any) -> str:
    """A value in one short line: text as it is, anything else as JSON; a long one is cut, and keeps
    by some digits of its digest what tells it from others that begin alike."""
    if value is None:
        return NONE
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(text.split()) or EMPTY
    if len(line) <= LABEL_CHARACTERS:
        return line
    end = f"… {digest_json(line)[:DIGEST_CHARACTERS]}"
    return line[: LABEL_CHARACTERS - len(end)] + end


def labels_of(table: pa.Table) -> Mapping[str, Strings]:
    """The labels of each column, `[N]`, of a table of row columns."""
    return {
        name.removeprefix(PREFIX): np.asarray(table[name].to_pylist(), dtype=np.str_)
        for name in table.column_names
        if name.startswith(PREFIX)
    }
