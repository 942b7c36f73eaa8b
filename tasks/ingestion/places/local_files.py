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
    is_wanted,
    source_by_name,
    source_file,
)
from tasks.ingestion.places.unread_files import some_of
from tasks.ingestion.redaction import redacted


def match_files(source: Source, found: DirectoryFiles | None = None) -> list[SourceFile]:
    """The local files of a source's path, sorted by name. `found` is the result of `find_files`, if
    the caller has it.

    Raises:
        DataError: nothing matches, or something that matches is no readable data file.
    """
    names = (found or find_files(source)).read
    sources = source_by_name(source, names)
    return [_local_file(sources[name], name) for name in names]


def find_files(source: Source) -> DirectoryFiles:
    """The files that the source's path matches, or that are below it.

    Raises:
        DataError: there is none to read, or a directory in the path cannot be read.
    """
    assert source.path is not None
    path = split_members(source.path)[0]
    found = _files_of_path(source, os.path.expanduser(path))  # noqa: PTH111 (keeps the spelling)
    if found is None:
        raise DataError(
            f"source {source.name!r}: nothing matches {redacted(path)!r} (looked in "
            f"{redacted(_resolved(path))}); correct `path`: a file, a glob or a directory"
            + (" (a [ that is part of a name is [[] in a glob)" if "[" in path else "")
        )
    if not found.read:
        is_one = Path(_resolved(path)).is_dir()
        called = "the directory" if is_one else "each directory that matches"
        instead = f", but {some_of(found.left_out)}" if found.left_out else ""
        raise DataError(
            f"source {source.name!r}: {called} {path!r} ({_resolved(path)}) holds no file of a "
            f"known format{instead}; {EXPECTED}: {_advice(path if is_one else '', found.left_out)}"
        )
    return found


def _files_of_path(source: Source, path: str) -> DirectoryFiles | None:
    """The files of a directory or glob; None if it matches nothing."""
    wanted = partial(is_wanted, source)
    try:
        if os.path.isdir(path):  # noqa: PTH112 (a Path would lose a leading ./)
            return files_of_directory(path, wanted)
        return files_of_glob(path, wanted)
    except OSError as error:
        raise DataError(
            f"source {source.name!r}: {_resolved(error.filename)} cannot be read by user id "
            f"{os.geteuid()}: {error.strerror}; change its mode, or narrow `path`"
        ) from error


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
        file = source_file(source, name, path, status.st_size, "")
        return replace(file, digest=file.prefixes.digest(path))
    except PermissionError as error:
        raise DataError(f"{where}: not readable for user id {os.geteuid()}; change its mode") from (
            error
        )
    except OSError as error:
        raise DataError(f"{where} cannot be read: {error.strerror}") from error


def _resolved(name: str) -> str:
    return os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 (a loop cannot resolve)
