"""The local files that a source's path matches: a file, a glob or a directory.

data/raw/*.jsonl.gz  ->  SourceFile(name="data/raw/a.jsonl.gz", format="jsonl", codec=".gz") ...
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tasks.errors import DataError
from tasks.ingestion.formats.extensions import EXPECTED, is_archive
from tasks.ingestion.params import Source
from tasks.ingestion.places.archives import split_members
from tasks.ingestion.places.directories import DirectoryFiles, files_of_directory, files_of_glob
from tasks.ingestion.places.files import (
    SourceFile,
    check_name,
    declaring,
    is_wanted,
    source_file,
)
from tasks.ingestion.redaction import redacted


def match_files(source: Source, found: DirectoryFiles | None = None) -> list[SourceFile]:
    """The local files of a source's path, sorted by name. `found` is the result of `find_files`, if
    the caller has it.

    Raises:
        DataError: nothing matches, or something that matches is no readable data file.
    """
    assert source.path is not None
    given = split_members(source.path)[0]
    found = found or find_files(source)
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
            + _advice(given if is_one else "", found.left_out)
        )
    declared = declaring(source, found.read)
    return [_local_file(declared(name), name) for name in found.read]


def find_files(source: Source) -> DirectoryFiles | None:
    """The files that the source's path matches, or that are below it; None where it matches none.

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


def _advice(directory: str, left_out: Sequence[str]) -> str:
    """What to do if nothing in a directory is read: archives are only read if a glob names them."""
    archive = next(filter(is_archive, left_out), None)
    if archive is None:
        return "correct `path`, or say what the files are with `format`"
    name = Path(archive)
    glob = Path(directory, name.parent, f"*{''.join(name.suffixes[-2:])}")
    return f"archives are read where a glob names them, as `path: {glob}` does"


def _local_file(source: Source, name: str) -> SourceFile:
    path, where = Path(name), f"source {source.name!r}: {_resolved(name)}"
    check_name(source, name)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{where} is not a regular file; give a data file")
        found = source_file(source, name, path, status.st_size, "")
        return replace(found, digest=found.prefixes.digest(path))
    except PermissionError as error:
        raise DataError(f"{where}: not readable for user id {os.geteuid()}; change its mode") from (
            error
        )
    except OSError as error:
        raise DataError(f"{where} cannot be read: {error.strerror}") from error


def _unreadable(source: Source, error: OSError) -> DataError:
    return DataError(
        f"source {source.name!r}: {_resolved(error.filename)} cannot be read by user id "
        f"{os.geteuid()}: {error.strerror}; change its mode, or narrow `path`"
    )


def _resolved(name: str) -> str:
    return os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 (a loop cannot resolve)
