"""The files of a source: what its path matches, checked to be readable data files.

data/raw/*.jsonl.gz  ->  SourceFile(name="data/raw/a.jsonl.gz", format="jsonl", codec=".gz") ...
"""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tasks.errors import DataError, shown
from tasks.ingestion.formats.extensions import (
    ARCHIVES,
    EXPECTED,
    FORMATS,
    extension_of,
    is_archive,
    is_data,
    says_itself,
    split_codec,
)
from tasks.ingestion.params import ARCHIVE_FORMATS, Source
from tasks.ingestion.places.archives import SEPARATOR, split_members
from tasks.ingestion.places.directories import DirectoryFiles, files_of_directory, files_of_glob
from tasks.ingestion.places.prefixes import Prefixes, pieces_digest
from tasks.ingestion.places.unread_files import is_note, last_of, never_holds_rows
from tasks.ingestion.places.writable_names import unwritable
from tasks.ingestion.redaction import redacted


@dataclass(frozen=True)
class SourceFile:
    """One file of a source, by content."""

    name: str
    """As it was matched, with forward slashes."""
    path: Path
    format: str
    """A value of `FORMATS` or of `ARCHIVES`."""
    codec: str
    """What its name says of compression: one of `CODECS`, or empty."""
    delimiter: str
    size: int
    digest: str
    """Of its bytes on disk: see `prefixes`."""
    prefixes: Prefixes = field(default_factory=Prefixes, compare=False, repr=False)
    """What its digest's pass over it knows of its beginnings."""
    quotes: bool = True

    @property
    def is_archive(self) -> bool:
        """Whether the rows are in files within it."""
        return self.format in ARCHIVES.values()


def match(source: Source, found: DirectoryFiles | None = None) -> list[SourceFile]:
    """The local files of a source's path, sorted by name; `found` is what it stands for, if that
    has been looked for.

    Raises:
        DataError: nothing matches, or something that matches is no readable data file.
    """
    assert source.path is not None
    given = split_members(source.path)[0]
    found = found or found_below(source)
    if found is None:
        raise DataError(
            f"source {source.name!r}: nothing matches {redacted(given)!r} (looked in "
            f"{redacted(_resolved(given))}); correct `path`: a file, a glob or a directory"
            + (" (a [ that is part of a name is [[] in a glob)" if "[" in given else "")
        )
    if not found.read:
        is_one = Path(_resolved(given)).is_dir()
        called = "the directory" if is_one else "each directory that matches"
        raise DataError(
            f"source {source.name!r}: {called} {given!r} ({_resolved(given)}) holds no file of a "
            f"known format{found.instead}; {EXPECTED}: "
            + _instead_of(given if is_one else "", found.left_out)
        )
    declared = declaring(source, found.read)
    return [_described(declared(name), name) for name in found.read]


def declaring(source: Source, names: Sequence[str]) -> Callable[[str], Source]:
    """The source as it declares a file among those of these names: its `format` is of those that do
    not tell what they are, or of all, where they tell the same (archives keep what they tell)."""
    told = {extension_of(last_of(name)) for name in names if not is_archive(last_of(name))}
    undeclared = source.model_copy(update={"format": None})
    return lambda name: undeclared if len(told) > 1 and says_itself(last_of(name)) else source


def _instead_of(directory: str, left_out: Sequence[str]) -> str:
    """What to do where nothing in a directory is read; an archive is, where it is named."""
    archive = next(filter(is_archive, left_out), None)
    if archive is None:
        return "correct `path`, or say what the files are with `format`"
    name = Path(archive)
    glob = Path(directory, name.parent, f"*{''.join(name.suffixes[-2:])}")
    return f"archives are read where a glob names them, as `path: {glob}` does"


def found_below(source: Source) -> DirectoryFiles | None:
    """The files of the source's path: those below it, if it is a directory; None where it matches
    nothing.

    Raises:
        DataError: a directory in it cannot be read.
    """
    assert source.path is not None
    path = os.path.expanduser(split_members(source.path)[0])  # noqa: PTH111 (keeps the spelling)
    wanted = partial(is_wanted, source)
    try:
        if os.path.isdir(path):  # noqa: PTH112 (a Path would lose a leading ./)
            return files_of_directory(path, wanted)
        return files_of_glob(path, wanted)
    except OSError as error:
        raise _unreadable(source, error) from error


def is_wanted(source: Source, name: str) -> bool:
    """Whether a file of this name among others holds rows, by its extension or as its source
    declares."""
    if is_data(name):
        return not is_note(name)
    declared = source.format is not None and not _declares_archives(source)
    return declared and not never_holds_rows(name)


def described(
    source: Source, name: str, path: Path, size: int, digest: str, said: Sequence[str] = ()
) -> SourceFile:
    """The file at `path` as what the first of these says that it is: its source's `format`, the
    extension of its name, the names that its server gives it (`said`).

    Raises:
        DataError: none of them says anything, or the name cannot be written in a line.
    """
    _check_name(source, name)
    telling = _telling(source, name, said)
    if telling is None:
        plain = last_of(name)
        others = ", ".join(shown(each) for each in said if each != plain)
        gave = f" (nor has {others}, as its server calls it)" if others else ""
        raise DataError(
            f"source {source.name!r}: {name}: {plain!r} has no known extension{gave}; {EXPECTED}: "
            "rename it, narrow `path` to the data files, or say what it is with `format`, for "
            "example format: jsonl (json, csv, tsv, parquet, arrow; jsonl.gz where compressed)"
        )
    stem, codec = split_codec(telling)
    format_ = ARCHIVES.get(Path(stem).suffix) or FORMATS[Path(stem).suffix]
    if format_ == "tar":
        codec = {".tgz": ".gz", ".tbz2": ".bz2", ".txz": ".xz"}.get(Path(stem).suffix, codec)
    delimiter = source.delimiter or ("\t" if stem.endswith(".tsv") else ",")
    return SourceFile(name, path, format_, codec, delimiter, size, digest, quotes=source.quotes)


def _check_name(source: Source, name: str) -> None:
    """Raises DataError for a name that no line of a table or a log could hold."""
    if fault := unwritable(name):
        raise DataError(
            f"source {source.name!r}: the name of {shown(name, 200)} {fault}; rename it"
        )


def _telling(source: Source, name: str, said: Sequence[str]) -> str | None:
    """A file name whose extension tells what the file is.

    An archive is told by its own name, and `format` then speaks of its members.
    """
    declared, plain = source.format, last_of(name)
    if declared is not None:
        of_archive = _declares_archives(source)
        is_member = SEPARATOR in name
        if not is_member if of_archive else is_member or not is_archive(plain):
            return f"x.{declared}"
    return next((n for n in (plain, *said) if says_itself(n)), None)


def _declares_archives(source: Source) -> bool:
    return source.format is not None and source.format.partition(".")[0] in ARCHIVE_FORMATS


def check_unchanged(file: SourceFile) -> None:
    """Raises DataError when the file's bytes are not those that the key was made of."""
    try:
        same = pieces_digest(file.path) == file.digest
    except OSError:
        same = False
    if not same:
        raise changed(file)


def changed(file: SourceFile) -> DataError:
    """The error of a file whose bytes are not those that the key was made of."""
    return DataError(
        f"{file.name} changed while it was read (changed_during_read); nothing of it was used: "
        "run again when nothing writes to it any more"
    )


def _unreadable(source: Source, error: OSError) -> DataError:
    return DataError(
        f"source {source.name!r}: {_resolved(error.filename)} cannot be read by user id "
        f"{os.geteuid()}: {error.strerror}; change its mode, or narrow `path`"
    )


def _described(source: Source, name: str) -> SourceFile:
    path, where = Path(name), f"source {source.name!r}: {_resolved(name)}"
    _check_name(source, name)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{where} is not a regular file; give a data file")
        found = described(source, name, path, status.st_size, "")
        return replace(found, digest=found.prefixes.digest(path))
    except PermissionError as error:
        raise DataError(f"{where}: not readable for user id {os.geteuid()}; change its mode") from (
            error
        )
    except OSError as error:
        raise DataError(f"{where} cannot be read: {error.strerror}") from error


def _resolved(name: str) -> str:
    return os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 (a loop cannot resolve)
