"""Checks declared columns: distinct names in one file, and the same ones in all files of a source.

CSV, Parquet and Arrow files declare columns. JSON rows may have different fields, which conversion
checks row by row.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tasks.errors import DataError, shown, some

TEXT = "string"
NAMED = 4
"""Number of files that a message lists."""

Kind = TypeVar("Kind")


def check_names(place: str, names: Sequence[str]) -> None:
    """Raises DataError if two names are equal, or differ only in case or outer spaces."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"{place}: column {shown(twice[0])} stands twice among {shown(list(names))}; rename "
            "one of them"
        )
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.strip().casefold(), name)
        if other != name:
            raise DataError(
                f"{place}: columns {shown(other)} and {shown(name)} differ only in case or outer "
                "spaces; rename one of them"
            )


def check_same_columns(source: str, columns: Mapping[str, Mapping[str, str]]) -> None:
    """Raises DataError if files of one source declare different columns, or different kinds of one.

    Args:
        columns: file -> its columns as name -> kind; the kind "null" agrees with all.
    """
    groups: dict[frozenset[str], list[str]] = {}
    for file, declared in columns.items():
        groups.setdefault(frozenset(declared), []).append(file)
    if len(groups) > 1:
        common = frozenset[str].intersection(*groups)
        raise DataError(
            f"source {source!r}: its files declare different columns: "
            + "; ".join(_group(names - common, files) for names, files in _largest_first(groups))
            + f" (all have {shown(sorted(common))}); write them alike, or make each kind a source"
        )
    for name in next(iter(groups), ()):
        kinds: dict[str, list[str]] = {}
        for file, declared in columns.items():
            if declared[name] != "null":
                kinds.setdefault(declared[name], []).append(file)
        if len(kinds) > 1:
            found = ", ".join(f"{k} in {_files(f)}" for k, f in _largest_first(kinds))
            raise DataError(
                f"source {source!r}: column {shown(name)} is {found}; write it in one type, or "
                "make each kind a source"
            )


def _largest_first(groups: Mapping[Kind, list[str]]) -> list[tuple[Kind, list[str]]]:
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[1]))


def _group(names: frozenset[str], files: list[str]) -> str:
    return f"{_files(files)} with {shown(sorted(names)) if names else 'nothing more'}"


def _files(files: list[str]) -> str:
    return f"{len(files)} file{'s' if len(files) > 1 else ''} ({some(files, NAMED)})"
