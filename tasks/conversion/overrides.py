"""What a person decided of single pairs, against their labels: `conversion.overrides`.

In:  a file of rows with `pair_id` and `action`, whatever else they hold: CSV or TSV (with or
     without a byte order mark), Parquet, JSON or JSONL, as evaluation's `suspects.csv` is once
     someone has filled in its last column.
Out: pair_id -> action; and a pair as the action has it.

    flip   the other answer is the better one; a margin or a soft label falls away
    drop   the pair is left out
    tie    neither is better: left out, or kept with preference 0.5, as `ties` says
    (empty: the label stands)

A pair that was flipped has another id from then on. What is decided of it by that one stands beside
the flip, in the same file: `cat suspects-1.csv suspects-2.csv`, but for the second header.
"""

import csv
import io
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import orjson

from tasks.conversion.preference.pair import TIE, Pair, in_tie_order, swapped
from tasks.conversion.preference.ties import Ties
from tasks.conversion.unusable import Unusable
from tasks.errors import DataError, shown

Action = Literal["flip", "drop", "tie"]
ACTIONS: tuple[Action, ...] = ("flip", "drop", "tie")
COLUMNS = ("pair_id", "action")
KNOWN = (".csv", ".tsv", ".parquet", ".json", ".jsonl")


def read_overrides(path: Path) -> dict[str, Action]:
    """The action of every pair that has one.

    Raises:
        DataError: the file cannot be read, lacks a column, or has an action that is none, or two
            for one pair.
    """
    actions: dict[str, Action] = {}
    for number, row in enumerate(_rows(path), 1):
        _check_columns(f"{path} row {number}", row)
        action = str(row["action"] or "").strip().lower()
        if not action:
            continue
        if action not in ACTIONS:
            raise DataError(
                f"{path} row {number}: action {shown(action)} is unknown; expected one of "
                f"{', '.join(ACTIONS)}, or nothing where the label stands"
            )
        pair_id = str(row["pair_id"] or "").strip()
        if actions.setdefault(pair_id, action) != action:
            raise DataError(
                f"{path} row {number}: pair_id {shown(pair_id)} has action {action!r} here and "
                f"{actions[pair_id]!r} before; decide for one"
            )
    return actions


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    kind = path.suffix.lower()
    if kind not in KNOWN:
        raise DataError(f"{path}: expected a file ending in {', '.join(KNOWN)} as overrides")
    try:
        if kind == ".parquet":
            return _parquet(path)
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        if kind in (".csv", ".tsv"):
            return _delimited(path, text.decode(), "," if kind == ".csv" else "\t")
        rows = (
            [orjson.loads(line) for line in text.splitlines() if line.strip()]
            if (kind == ".jsonl")
            else orjson.loads(text)
        )
    except DataError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path}: overrides cannot be read: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in cast(list[Any], rows)):
        raise DataError(f"{path}: expected objects with pair_id and action as overrides")
    return cast(list[dict[str, Any]], rows)


def _check_columns(where: str, columns: Collection[str]) -> None:
    if lacking := next((column for column in COLUMNS if column not in columns), None):
        found = ", ".join(map(shown, columns)) or "none"
        raise DataError(
            f"{where}: found the columns {found}, expected {lacking!r}: conversion.overrides takes "
            f"{' and '.join(COLUMNS)}"
        )


def _delimited(path: Path, text: str, delimiter: str) -> list[dict[str, Any]]:
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns = table.fieldnames or ()
    _check_columns(f"{path} line 1", columns)
    rows: list[dict[str, Any]] = []
    try:
        for row in table:
            if None in row or None in row.values():
                cells = len(columns) + len(row.get(None, ())) - [*row.values()].count(None)
                raise DataError(
                    f"{path}: the row that ends in line {table.line_num} has {cells} cells, "
                    f"expected {len(columns)} as in the first line; quote cells that hold a "
                    f"{'comma' if delimiter == ',' else 'tab'} or a line break"
                )
            rows.append(row)
    except csv.Error as error:
        raise DataError(
            f"{path}: overrides cannot be read: {error}, in the row that begins in line "
            f'{table.line_num + 1}; expected quotes closed, and doubled ("") within a quoted cell'
        ) from None
    return rows


def _parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    _check_columns(str(path), pq.read_schema(path).names)
    return pq.read_table(path, columns=[*COLUMNS]).to_pylist()


def overridden(pair: Pair, action: Action, ties: Ties) -> Pair:
    """The canonical pair as the action has it.

    Raises:
        Unusable: overridden_drop, overridden_tie, where it is left out.
    """
    if action == "drop" or (action == "tie" and ties == "drop"):
        message = f"conversion.overrides says {action}: left out"
        raise Unusable(f"overridden_{action}", "chosen", message)
    if action == "tie":
        return in_tie_order(replace(pair, preference=TIE, margin=None))
    # One place of a ranking that was exchanged with another is no ranking any more.
    comparison = None if pair.prompt else pair.comparison
    return replace(swapped(pair), preference=1.0, margin=None, comparison=comparison)
