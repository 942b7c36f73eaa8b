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
_EXPECTED = "expected an object with pair_id and action"
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
        text = _text(path)
        if kind in (".csv", ".tsv"):
            return _delimited(path, text, "," if kind == ".csv" else "\t")
        rows = _json_lines(path, text) if kind == ".jsonl" else orjson.loads(text)
    except DataError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path}: overrides cannot be read: {error}") from None
    if not isinstance(rows, list):
        raise DataError(f"{path}: expected a list of objects with pair_id and action as overrides")
    for number, row in enumerate(cast(list[Any], rows), 1):
        if not isinstance(row, dict):
            raise DataError(f"{path} row {number}: found {shown(row)}, {_EXPECTED}")
    return cast(list[dict[str, Any]], rows)


def _text(path: Path) -> str:
    raw = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line, byte = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        found = shown(raw[error.start : error.end])
        raise DataError(
            f"{path} line {line}: byte {byte} is not UTF-8 ({found}); save the file as UTF-8"
        ) from None


def _json_lines(path: Path, text: str) -> list[Any]:
    rows: list[Any] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            rows += [orjson.loads(line)] if line.strip() else []
        except orjson.JSONDecodeError as error:
            raise DataError(
                f"{path} line {number}: found {shown(line)}, which is no JSON ({error.msg}); "
                f"{_EXPECTED}"
            ) from None
    return rows


def _check_columns(where: str, columns: Collection[str], do: str = "") -> None:
    if lacking := next((column for column in COLUMNS if column not in columns), None):
        found = ", ".join(map(shown, columns)) or "none"
        raise DataError(
            f"{where}: found the columns {found}, expected {lacking!r}: conversion.overrides takes "
            f"{' and '.join(COLUMNS)}{do}"
        )


def _delimited(path: Path, text: str, delimiter: str) -> list[dict[str, Any]]:
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns = table.fieldnames or ()
    parted = f"; part the cells by {'commas' if delimiter == ',' else 'tabs'}"
    _check_columns(f"{path} line 1", columns, parted if len(columns) == 1 else "")
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
