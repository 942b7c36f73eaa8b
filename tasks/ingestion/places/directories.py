"""The files of a source whose path is a directory or a glob: which are read, and which are not.

raw/a.jsonl  raw/deep/b.csv.gz  raw/link/c.jsonl       read; links are followed, each place once
raw/part-00001  raw/b.txt  raw/c.jsonl.lz4             not read, and reported: format unknown
raw/README.md  raw/.cache/x  raw/a.png  raw/_SUCCESS   not read: such files never hold rows
"""

import glob
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tasks.ingestion.places.unread_files import may_hold_rows

ACROSS = "**"
"""Part of a glob that matches any number of directories."""


@dataclass(frozen=True)
class DirectoryFiles:
    """The files of a directory or glob."""

    read: Sequence[str] = ()
    """Paths to read, sorted; they begin with the directory's."""
    left_out: Sequence[str] = ()
    """Paths that may hold rows but are not read; relative to the directory, or as the glob matches
    them."""


def files_of_directory(directory: str, is_wanted: Callable[[str], bool]) -> DirectoryFiles:
    """All files below the directory, except hidden ones; `is_wanted` decides by file name which are
    read."""
    read: list[str] = []
    left_out: list[str] = []
    files = set(_files(directory))
    for path in files - _metadata_of_datasets(files):
        if is_wanted(path.name):
            read.append(path.as_posix())
        elif may_hold_rows(path.name):
            left_out.append(path.relative_to(directory).as_posix())
    return DirectoryFiles(sorted(read), sorted(left_out))


def files_of_glob(pattern: str, is_wanted: Callable[[str], bool]) -> DirectoryFiles | None:
    """The files that a glob matches and those below the directories that it matches, each directory
    once even if links lead to it; None if it matches nothing."""
    names = _expanded(pattern)
    directories = [name for name in names if os.path.isdir(name)]  # noqa: PTH112 (of many names)
    places: dict[Path, str] = {}
    for name in sorted(directories, key=os.path.islink):
        places.setdefault(Path(name).resolve(), name)
    inner = {name: files_of_directory(name, is_wanted) for name in places.values()}
    read = ({*names} - {*directories}).union(*(one.read for one in inner.values()))
    left_out = [f"{name}/{left}" for name, one in inner.items() for left in one.left_out]
    return DirectoryFiles(sorted(read), sorted(left_out)) if names else None


def _expanded(path: str) -> list[str]:
    """The path itself if it exists, else what it matches as a glob, sorted.

    Raises:
        OSError: a directory below `**` cannot be read.
    """
    path = os.path.expanduser(path)  # noqa: PTH111 (keeps the spelling of the path)
    if os.path.lexists(path):
        return [path]
    return sorted(Path(name).as_posix() for name in _globbed(path))


def _globbed(pattern: str) -> Iterator[str]:
    """The files and directories that a glob matches; with `**` only files.

    For `**`, `_files` walks the directories: `glob` follows a link to a parent some forty times.
    """
    parts = Path(pattern).parts
    before = parts.index(ACROSS) if ACROSS in parts else len(parts)
    if before == len(parts) or any(part.startswith(".") for part in parts[before:]):
        names = glob.glob(pattern, recursive=True)  # noqa: PTH207 (absolute patterns, too)
        yield from (n for n in names if ACROSS not in parts or not Path(n).is_dir())
        return
    for top in glob.glob(str(Path(*parts[:before]))):  # noqa: PTH207
        for path in _files(top):
            if matches(path.relative_to(top).parts, parts[before:]):
                yield str(path)


def matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path, split at `/`, matches a glob: `*` within a part, `**` any number of parts."""
    if not pattern:
        return not parts
    first, *rest = pattern
    if first == ACROSS:
        return any(matches(parts[start:], rest) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], first) and matches(parts[1:], rest)


def _files(top: str) -> Iterator[Path]:
    """Every file below a directory that is not hidden.

    Links to directories are followed last, so that a file is found by its path without a link if it
    has one. No directory is entered twice.

    Raises:
        OSError: a directory cannot be read.
    """
    waiting: list[tuple[str, tuple[Path, ...]]] = [(top, ())]
    entered: set[Path] = set()
    for start, way in waiting:
        for directory, inner, names in os.walk(start, onerror=_raised):
            place = Path(directory).resolve()
            if place in entered:
                inner.clear()
                continue
            entered.add(place)
            inner[:] = sorted(n for n in inner if not n.startswith(".") and n != "lost+found")
            for link in (Path(directory, name) for name in inner):
                if link.is_symlink() and not _leads_back(link, (*way, place)):
                    waiting.append((str(link), (*way, place)))
            yield from (Path(directory, name) for name in names if not name.startswith("."))


def _metadata_of_datasets(files: Collection[Path]) -> set[Path]:
    """Files without new rows that the `datasets` library writes beside Arrow files: `state.json`
    and `cache-*.arrow`."""
    arrow = [path for path in files if path.suffix == ".arrow"]
    states = {path.with_name("state.json") for path in arrow}
    caches = (path for path in arrow if fnmatchcase(path.name, "cache-*.arrow"))
    return states | {path for path in caches if path.with_name("dataset_info.json") in files}


def _raised(error: OSError) -> None:
    raise error


def _leads_back(link: Path, way: Sequence[Path]) -> bool:
    """Whether the link leads to one of the directories on the way to it, or above one."""
    return any(place.is_relative_to(link.resolve()) for place in way)
