"""The files below a directory that is given as a source: which are read, and which are left out.

raw/a.jsonl  raw/deep/b.csv.gz  raw/link/c.jsonl    read; a link is followed, each place once
raw/part-00001  raw/b.txt  raw/c.jsonl.lz4          left out: nothing says what they are
raw/README.md  raw/.cache/x  raw/a.png  raw/_SUCCESS   nobody's rows: left out without a word
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from pathlib import Path

from tasks.errors import shown

NOBODYS = (
    *("readme", "readme.*", "license", "license.*", "licence", "licence.*", "notice"),
    *("copying", "copying.*", "citation.*", "changelog", "changelog.*", "*.md", "*.rst"),
    *("*.md5", "*.sha1", "*.sha256", "*.sha512", "*.crc"),
    *("md5sums", "sha*sums", "md5sums.txt", "sha*sums.txt", "checksums", "checksums.txt"),
    *("_success", "_metadata", "_common_metadata", "_committed_*", "_started_*"),
    *("*.png", "*.jpg", "*.jpeg", "*.webp", "*.gif", "*.bmp", "*.tif", "*.tiff", "*.svg"),
)
"""Names, in lower case, of what lies beside rows and holds none: texts for people, checksums, marks
of who wrote them, and the images that rows may name."""
_NOBODYS = re.compile("|".join(map(translate, NOBODYS)))
NAMED = 3
"""Of the files that are left out."""


@dataclass(frozen=True)
class Below:
    """The files of a directory."""

    read: Sequence[str] = ()
    """As paths that begin with the directory's."""
    left_out: Sequence[str] = ()
    """What may hold rows, and is not read; as paths from the directory."""

    @property
    def instead(self) -> str:
        """`, but 'a.txt', 'b.txt', 'deep/c' and 7 more`, where nothing is read."""
        return f", but {self._some}" if self.left_out else ""

    def told(self, path: str) -> str:
        """What is left out, and what to do."""
        return (
            f"{len(self.left_out):,} of the files below {path!r} left out, as their names are of "
            f"no known format: {self._some}; if they hold rows, name them with a glob in `path`, "
            "or say what they are with `format`"
        )

    @property
    def _some(self) -> str:
        more = len(self.left_out) - NAMED
        named = ", ".join(shown(name, 200) for name in self.left_out[:NAMED])
        return named + (f" and {more:,} more" if more > 0 else "")


def below(
    directory: str, *, is_data: Callable[[str], bool], is_wanted: Callable[[str], bool]
) -> Below:
    """All files of the directory that are not hidden, sorted; data by their own names
    (`is_data`), or by what their source declares (`is_wanted`)."""
    read: list[str] = []
    left_out: list[str] = []
    files = set(_files(directory))
    for path in files - _notes_of_datasets(files):
        nobodys = _NOBODYS.fullmatch(path.name.lower())
        if is_data(path.name) or (is_wanted(path.name) and not nobodys):
            read.append(path.as_posix())
        elif not nobodys:
            left_out.append(path.relative_to(directory).as_posix())
    return Below(sorted(read), sorted(left_out))


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
    places = {path.parent for path in arrow}
    notes = {place / name for place in places for name in ("dataset_info.json", "state.json")}
    notes |= {place.parent / "dataset_dict.json" for place in places}
    computed = (path for path in arrow if fnmatchcase(path.name, "cache-*.arrow"))
    return notes | {path for path in computed if path.with_name("dataset_info.json") in files}


def _raised(error: OSError) -> None:
    raise error


def _leads_back(link: Path, way: Sequence[Path]) -> bool:
    """Whether it goes to where one came from, or above it."""
    return any(place.is_relative_to(link.resolve()) for place in way)
