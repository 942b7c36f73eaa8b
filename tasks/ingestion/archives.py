"""The data files within `.tar` (plain or compressed) and `.zip`, unpacked one archive at a time.

    raw.zip                   every data file in it
    raw.tar.gz!/train/*.jsonl only the members that the glob matches (`*` crosses directories)

A member that leads out of the archive, or is a link or a device, refuses the whole archive,
whether it is asked for or not; so does a bomb. Names of members never become paths on disk.
"""

import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

from tasks.errors import DataError, shown
from tasks.ingestion.batches import Origin
from tasks.ingestion.decompression import (
    BOMB_BYTES,
    BOMB_RATIO,
    PIECE_BYTES,
    DamagedFile,
    pieces,
    said,
)
from tasks.ingestion.prefixes import PiecesHash

ARCHIVES = {".zip": "zip", ".tar": "tar", ".tgz": "tar", ".tbz2": "tar", ".txz": "tar"}
MEMBERS_LIMIT = 100_000
SEPARATOR = "!/"
_BLOCK = 512
_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(ValueError, LookupError, OverflowError, RuntimeError, struct.error),
)
"""The last of them are zipfile's on nonsense in headers: unknown methods, encodings, offsets."""


@dataclass(frozen=True)
class Member:
    """One unpacked file."""

    name: str
    """Within the archive."""
    path: Path
    size: int
    digest: str


Wanted = Callable[[str], bool]


def split_members(path: str) -> tuple[str, str | None]:
    """The path of an archive and the glob of its members, or the whole path and None."""
    archive, found, members = path.partition(SEPARATOR)
    return (archive, members) if found else (path, None)


def unpack(
    origin: Origin, kind: str, pattern: str | None, is_data: Wanted, target: Path
) -> list[Member]:
    """The members that the pattern matches (None: all data files), unpacked below `target`.

    They are sorted by name; on disk they are numbered.

    Raises:
        DataError: the archive is unsafe, a bomb, damaged, or has no such member.
    """
    size = origin.path.stat().st_size
    if not size:
        raise DataError(f"{origin.name}: empty_file: an archive of no bytes; fetch it again")

    def wanted(name: str) -> bool:
        if pattern is not None:
            return fnmatchcase(name, pattern)
        hidden = any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
        return is_data(name) and not hidden

    read = _zip_members if kind == "zip" else _tar_members
    found: list[Member] = []
    total = count = 0
    for count, (name, content) in enumerate(read(origin, wanted), 1):
        if count > MEMBERS_LIMIT:
            raise DataError(f"{origin.name}: over {MEMBERS_LIMIT:,} members; unpack it yourself")
        if content is None:
            continue
        path, digest, written = target / f"{len(found):05d}", PiecesHash(), 0
        with path.open("wb") as file:
            for piece in content:
                file.write(piece)
                digest.update(piece)
                written += len(piece)
                _check_bomb(origin, size, total + written)
        total += written
        found.append(Member(name, path, written, digest.hexdigest()))
    if not found:
        raise DataError(
            f"{origin.name}: none of its {count:,} members "
            + ("is a data file" if pattern is None else f"matches {shown(pattern)}")
            + f"; name them as {Path(origin.name).name}{SEPARATOR}train/*.jsonl"
        )
    names = [member.name for member in found]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise DataError(f"{origin.name}: member {shown(twice)} is in it twice; pack it again")
    return sorted(found, key=lambda member: member.name)


def _check_bomb(origin: Origin, size_in: int, size_out: int) -> None:
    if size_out > BOMB_BYTES and size_out > BOMB_RATIO * size_in:
        raise DataError(
            f"{origin.name}: decompressed >{BOMB_RATIO}:1 ({size_in:,} bytes gave {size_out:,}); "
            "unpack it yourself if it is meant to be so"
        )


def _safe(origin: Origin, name: str) -> str:
    """The name without a leading `./`.

    Raises:
        DataError: it is absolute or leads out.
    """
    parts = name.replace("\\", "/").split("/")
    if not parts[0] or ".." in parts or parts[0].endswith(":"):
        raise DataError(
            f"{origin.name}: unsafe_member {shown(name)} leads out of the archive; nothing of it "
            "is used: pack it again with relative names"
        )
    return name.removeprefix("./")


def _no_file(origin: Origin, name: str, kind: str) -> DataError:
    return DataError(
        f"{origin.name}: unsafe_member {shown(name)} is a {kind}; nothing of it is used: pack it "
        "again with the files themselves"
    )


def _zip_members(origin: Origin, wanted: Wanted) -> Iterator[tuple[str, Iterator[bytes] | None]]:
    with _damage_told(origin), zipfile.ZipFile(origin.path) as archive:
        entries = archive.infolist()
        for entry in entries:
            _safe(origin, entry.filename)
            if (entry.external_attr >> 16) & 0o170000 == 0o120000:
                raise _no_file(origin, entry.filename, "symbolic link")
        for entry in entries:
            if entry.is_dir():
                continue
            name = _safe(origin, entry.filename)
            if not wanted(name):
                yield name, None
                continue
            if entry.flag_bits & 1:
                raise DataError(f"{origin.name}: member {shown(name)} is encrypted; unpack it")
            with archive.open(entry) as file:
                yield name, _read(origin, file)


def _tar_members(origin: Origin, wanted: Wanted) -> Iterator[tuple[str, Iterator[bytes] | None]]:
    stream: Any = _Stream(origin)
    with _damage_told(origin):
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as archive:
            for entry in archive:
                name = _safe(origin, entry.name)
                if entry.isdir():
                    continue
                if not entry.isreg():
                    kind = "link" if entry.islnk() or entry.issym() else "device or a pipe"
                    raise _no_file(origin, name, kind)
                file = archive.extractfile(entry) if wanted(name) else None
                yield name, _read(origin, file) if file else None
        _check_end(origin, stream)


def _check_end(origin: Origin, stream: Any) -> None:
    """Raises where the end mark (zero blocks) is missing, or more follows it."""
    # Read block by block, so the last one is the one at which the members ended.
    if len(stream.tail) < _BLOCK or stream.tail.strip(b"\0"):
        raise DamagedFile(
            f"{origin.name}: truncated_tar: no end mark behind the last member; fetch the archive "
            "again"
        )
    while piece := stream.read(PIECE_BYTES):
        if piece.strip(b"\0"):
            raise DataError(
                f"{origin.name}: more follows the archive's end mark; concatenated archives: give "
                "each as a file of its own"
            )


@contextmanager
def _damage_told(origin: Origin) -> Generator[None, None, None]:
    """Whatever zipfile and tarfile raise on damage, as DamagedFile."""
    try:
        yield
    except DataError:
        raise
    except _DAMAGE as error:
        raise DamagedFile(
            f"{origin.name}: damaged archive ({said(error)}); fetch or pack it again"
        ) from error


def _read(origin: Origin, file: IO[bytes]) -> Iterator[bytes]:
    with _damage_told(origin):
        while piece := file.read(PIECE_BYTES):
            yield piece


class _Stream:
    """The decompressed bytes of a tar as a file to read; remembers the last block."""

    def __init__(self, origin: Origin) -> None:
        self._pieces = pieces(origin)
        self._piece, self._position = b"", 0
        self.tail = b""

    def read(self, count: int) -> bytes:
        taken = self._piece[self._position : self._position + count]
        self._position += len(taken)
        while len(taken) < count:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._piece, self._position = piece, count - len(taken)
            taken += piece[: self._position]
        self.tail = taken or self.tail
        return taken
