"""The files below a directory that is given as a source, or that a glob matches: which are read,
which are left out; and those that a glob across directories (`**`) matches.

raw/a.jsonl  raw/deep/b.csv.gz  raw/link/c.jsonl    read; a link is followed, each place once
raw/part-00001  raw/b.txt  raw/c.jsonl.lz4          left out: nothing says what they are
raw/README.md  raw/.cache/x  raw/a.png  raw/_SUCCESS   nobody's rows: left out without a word
"""

import glob
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tasks.ingestion.places.left_out import may_hold_rows, some_of, told

ACROSS = "**"
NAME_OR_DECLARE = "name them with a glob in `path`, or say what they are with `format`"


@dataclass(frozen=True)
class Below:
    """The files of a directory, or of a glob that matches directories."""

    read: Sequence[str] = ()
    """As paths that begin with the directory's."""
    left_out: Sequence[str] = ()
    """What may hold rows, and is not read; as paths from the directory, or as the glob has them."""

    @property
    def instead(self) -> str:
        """`, but 'a.txt', 'b.txt', 'deep/c' and 7 more`, where nothing is read."""
        return f", but {some_of(self.left_out)}" if self.left_out else ""

    def told(self, path: str, instead: str = NAME_OR_DECLARE) -> str:
        """What is left out, and what to do."""
        return told(self.left_out, f"the files below {path!r}", instead)


def below(directory: str, is_wanted: Callable[[str], bool]) -> Below:
    """All files of the directory that are not hidden, sorted; `is_wanted` tells by its name
    whether one is read."""
    read: list[str] = []
    left_out: list[str] = []
    files = set(_files(directory))
    for path in files - _notes_of_datasets(files):
        if is_wanted(path.name):
            read.append(path.as_posix())
        elif may_hold_rows(path.name):
            left_out.append(path.relative_to(directory).as_posix())
    return Below(sorted(read), sorted(left_out))


def below_matched(pattern: str, is_wanted: Callable[[str], bool]) -> Below | None:
    """The files that a glob matches, and those of every directory that it matches, each place once;
    None where it matches nothing."""
    names = named(pattern)
    directories = [name for name in names if os.path.isdir(name)]  # noqa: PTH112 (of many names)
    places: dict[Path, str] = {}
    for name in sorted(directories, key=os.path.islink):
        places.setdefault(Path(name).resolve(), name)
    inner = {name: below(name, is_wanted) for name in places.values()}
    read = ({*names} - {*directories}).union(*(one.read for one in inner.values()))
    left_out = [f"{name}/{left}" for name, one in inner.items() for left in one.left_out]
    return Below(sorted(read), sorted(left_out)) if names else None


def named(given: str) -> list[str]:
    """The file of this path, or the files and directories that match it as a glob, sorted.

    Raises:
        OSError: a directory that `**` crosses cannot be read.
    """
    path = os.path.expanduser(given)  # noqa: PTH111 (keeps the spelling of the path)
    if os.path.lexists(path):
        return [path]
    return sorted(Path(name).as_posix() for name in _globbed(path))


def _globbed(pattern: str) -> Iterator[str]:
    """The files and directories that a glob matches; with `**`, files alone. What that crosses is
    walked as a directory is: a link that leads back is not followed, as `glob` does it forty times
    over, and each place is entered once.
    """
    parts = Path(pattern).parts
    before = parts.index(ACROSS) if ACROSS in parts else len(parts)
    if before == len(parts) or any(part.startswith(".") for part in parts[before:]):
        found = glob.glob(pattern, recursive=True)  # noqa: PTH207 (absolute patterns, too)
        yield from (n for n in found if ACROSS not in parts or not Path(n).is_dir())
        return
    for top in glob.glob(str(Path(*parts[:before]))):  # noqa: PTH207
        for path in _files(top):
            if matches(path.relative_to(top).parts, parts[before:]):
                yield str(path)


def matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path fits a glob, both in parts: `*` stays within one, `**` fits any number."""
    if not pattern:
        return not parts
    first, *rest = pattern
    if first == ACROSS:
        return any(matches(parts[start:], rest) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], first) and matches(parts[1:], rest)


def _files(top: str) -> Iterator[Path]:
    """Every file that is not hidden. Links to directories are followed when all else is walked:
    what is there under a name of its own keeps it, and no place is entered twice or from within.

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


def _notes_of_datasets(files: Collection[Path]) -> set[Path]:
    """What the `datasets` library writes beside its Arrow files: what they are, and what it once
    computed from them."""
    arrow = [path for path in files if path.suffix == ".arrow"]
    notes = {path.with_name("state.json") for path in arrow}
    computed = (path for path in arrow if fnmatchcase(path.name, "cache-*.arrow"))
    return notes | {path for path in computed if path.with_name("dataset_info.json") in files}


def _raised(error: OSError) -> None:
    raise error


def _leads_back(link: Path, way: Sequence[Path]) -> bool:
    """Whether it goes to where one came from, or above it."""
    return any(place.is_relative_to(link.resolve()) for place in way)
