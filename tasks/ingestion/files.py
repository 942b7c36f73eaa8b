"""The files of a source: what its path matches, checked to be readable data files.

data/raw/*.jsonl.gz  ->  SourceFile(name="data/raw/a.jsonl.gz", format="jsonl", codec=".gz") ...
"""

import glob
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from tasks.artifact import file_digest
from tasks.errors import DataError
from tasks.ingestion.params import Source

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
CODECS = (".gz", ".zst", ".bz2", ".xz")
EXPECTED = f"expected {' '.join(FORMATS)}, plain or with {' '.join(CODECS)}"


@dataclass(frozen=True)
class SourceFile:
    """One file of a source, by content."""

    name: str
    """As it was matched, with forward slashes."""
    path: Path
    format: str
    """A value of `FORMATS`."""
    codec: str
    """What its name says of compression: one of `CODECS`, or empty."""
    delimiter: str
    size: int
    digest: str
    """SHA-256 of its bytes on disk."""


def match(source: Source) -> list[SourceFile]:
    """The source's files, sorted by name.

    Raises:
        DataError: nothing matches, or something that matches is no readable data file.
    """
    if re.match(r"[a-z][a-z0-9+]+://", source.path):
        raise DataError(
            f"source {source.name!r}: {source.path} is a URL; only local files can be read: "
            "download it first and give the local path"
        )
    names = _names(source)
    if not names:
        raise DataError(
            f"source {source.name!r}: nothing matches {source.path!r} (looked in "
            f"{_resolved(source.path)}); correct `path`: a file, a glob or a directory"
        )
    return [_described(source, name) for name in names]


def check_unchanged(file: SourceFile) -> None:
    """Raises DataError when the file's bytes are not those that the key was made of."""
    try:
        same = file_digest(file.path) == file.digest
    except OSError:
        same = False
    if not same:
        raise DataError(
            f"{file.name} changed while it was read (changed_during_read); nothing of it was used: "
            "run again when nothing writes to it any more"
        )


def _names(source: Source) -> list[str]:
    path = os.path.expanduser(source.path)  # noqa: PTH111 (keeps the spelling of the path)
    if os.path.isdir(path):  # noqa: PTH112 (a Path would lose a leading ./)
        below = (p for p in Path(path).rglob("*") if _format(p.name) and not p.is_dir())
        return sorted(p.as_posix() for p in below if not _is_hidden(p.relative_to(path)))
    if os.path.lexists(path):
        return [path]
    found = glob.glob(path, recursive=True)  # noqa: PTH207 (absolute patterns, too)
    return sorted(Path(name).as_posix() for name in found if not Path(name).is_dir())


def _described(source: Source, name: str) -> SourceFile:
    path, where = Path(name), f"source {source.name!r}: {_resolved(name)}"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{where} is not a regular file; give a data file")
        format_ = _format(path.name)
        if format_ is None:
            raise DataError(
                f"{where}: {path.name!r} has no known extension; {EXPECTED}: rename it, or narrow "
                "`path` to the data files"
            )
        digest = file_digest(path)
    except PermissionError as error:
        raise DataError(f"{where}: not readable for user id {os.getuid()}; change its mode") from (
            error
        )
    except OSError as error:
        raise DataError(f"{where} cannot be read: {error.strerror}") from error
    stem, codec = _split_codec(path.name)
    delimiter = source.delimiter or ("\t" if stem.endswith(".tsv") else ",")
    return SourceFile(name, path, format_, codec, delimiter, status.st_size, digest)


def _split_codec(name: str) -> tuple[str, str]:
    """`("a.jsonl", ".gz")` of `a.JSONL.gz`."""
    lower = name.lower()
    codec = next((c for c in CODECS if lower.endswith(c)), "")
    return lower.removesuffix(codec), codec


def _format(name: str) -> str | None:
    stem = _split_codec(name)[0]
    return FORMATS.get(Path(stem).suffix)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _resolved(name: str) -> str:
    return os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 (a loop cannot resolve)
