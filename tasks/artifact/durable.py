"""Files that are either absent or complete, even after a crash or a loss of power.

A file is written under a temporary name, fsynced and renamed into place; then its directory is
fsynced, so that the new name survives too. An fsync that fails is never retried: the file is
discarded. Files of a unit are renamed into place before they are fsynced; nobody reads them until
the unit is marked as done, which comes after the fsync (`fsyncs`). Files that every attempt writes
anew are fsynced by the commit.
"""

import errno
import json
import os
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tasks.artifact.fsyncs import run_in_order
from tasks.artifact.threads import threaded_map
from tasks.errors import ArtifactError, PipelineError

TEMPORARY_SUFFIX = ".tmp"
Lasts = Literal["now", "by_mark", "later"]
"""When a written file is fsynced: `now`, before the writer returns; `by_mark`, before the next mark
is set (`fsyncs.run_in_order`); `later`, by the directory's owner, as a commit does."""

REFUSALS = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EROFS: "mount it for writing",
    errno.EACCES: "mend the permissions",
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
    errno.EIO: "see to the disk",
}
"""Errors of a file system that refuses to write, and what to do about each."""
OF_READING = (errno.EACCES, errno.EIO)
"""Those that reading meets, too."""


def fsync(path: Path) -> None:
    """Flushes the bytes of a file, or the entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_bytes(files: Sequence[Path]) -> None:
    """Flushes the bytes of files to the disk, several at a time, since each waits for the disk.

    For files that have been flushed before, this costs next to nothing.
    """
    threaded_map(_fsync_bytes, files)


def _fsync_bytes(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        getattr(os, "fdatasync", os.fsync)(descriptor)  # flushes the size, too, but not the times
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Makes a directory that most often exists: to check first takes a tenth of the time."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing(path: Path, lasts: Lasts = "now") -> Generator[Path, None, None]:
    """A temporary path, renamed to `path` on success; `lasts` says when it is fsynced."""
    make_directory(path.parent)
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        yield temporary
        if lasts == "now":
            fsync(temporary)
        temporary.replace(path)
        if lasts == "now":
            fsync(path.parent)
        elif lasts == "by_mark":
            run_in_order(fsync, path)
            run_in_order(fsync, path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any, lasts: Lasts = "now") -> None:
    """Writes `value` as indented JSON, whole or not at all."""
    with writing(path, lasts) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_json(path: Path) -> Any:
    """The JSON value of a file, or None where there is no such file or no JSON in it."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def files_below(directory: Path) -> list[Path]:
    """Every regular file below `directory`, sorted by its posix path.

    Raises:
        ArtifactError: something there is a link or no plain file.
    """
    return [directory / name for name in statuses_below(directory)]


def statuses_below(directory: Path) -> dict[str, os.stat_result]:
    """The files of `files_below` by posix name within the directory, each with its `stat`."""
    found: dict[str, os.stat_result] = {}
    left = [""]
    while left:
        folder = left.pop()
        with os.scandir(directory / folder) as entries:
            for entry in entries:
                name = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    left.append(f"{name}/")
                elif entry.is_file(follow_symlinks=False):
                    found[name] = entry.stat(follow_symlinks=False)
                else:
                    raise ArtifactError(
                        f"{entry.path} is no plain file; an artifact holds plain files only"
                    )
    return dict(sorted(found.items()))


def folders_of(names: Iterable[str]) -> set[str]:
    """All folders, by posix names, that files of these names are in; "" for the directory."""
    found, left = {""}, {name.rpartition("/")[0] for name in names}
    while left:
        found |= left
        left = {name.rpartition("/")[0] for name in left} - found
    return found


@contextmanager
def explained_disk_errors(directory: Path) -> Generator[None, None, None]:
    """Turns a full, read-only or failing disk into a sentence that says what to do, unless one of
    this project's own errors says it already.

    `directory`: where the work writes, unless the error names a place elsewhere.
    """
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        number = _number_of(error)
        advice = REFUSALS.get(number)
        if advice is None:
            raise
        place = _place_of(error, directory)
        named = isinstance(error, OSError) and error.filename
        refused = f"write below {place}"
        if number in OF_READING:
            refused = f"read or write {named or f'below {place}'}"
        status = os.statvfs(place)
        free = status.f_bavail * status.f_frsize / 1e9
        raise ArtifactError(
            f"cannot {refused}: {os.strerror(number)} ({free:.1f} GB free); finished "
            f"pieces are kept, so {advice} and run again"
        ) from error


def _number_of(error: Exception) -> int:
    """The error number; libraries in Rust (safetensors) only write it into their sentence, and
    numpy only says that less was written than it asked for, as on a full disk."""
    if isinstance(error, OSError):
        cut = re.fullmatch(r"\d+ requested and \d+ written", str(error))
        return error.errno or (errno.ENOSPC if cut else 0)
    written = re.search(r"\(os error (\d+)\)", str(error))
    return int(written[1]) if written else 0


def _place_of(error: Exception, directory: Path) -> Path:
    """`directory`, or where an error names a path outside it, that path's; of one that is not there
    the nearest that is."""
    named = isinstance(error, OSError) and (error.filename2 or error.filename)
    if isinstance(named, str) and not (path := Path(named).absolute()).is_relative_to(directory):
        directory = path.parent
    return next(place for place in (directory, *directory.parents) if place.is_dir())
