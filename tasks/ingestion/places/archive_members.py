"""The members of a `.zip` or a `.tar`, one after the other.

Out: the name of every file in it, and the pieces of its content, or None where it is not wanted.

Raises on the way:
    DataError: a member leads out of the archive, is a link or a device, or is encrypted; or a zip
        is compressed once more.
    DamagedFile: the archive is cut or damaged.
"""

import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import IO, Any

from tasks.errors import DataError, shown
from tasks.ingestion.formats.batches import Origin
from tasks.ingestion.formats.decompression import (
    PIECE_BYTES,
    DamagedFile,
    cause,
    codec_of,
    pieces,
)
from tasks.ingestion.formats.impostors import HEAD_BYTES, kind_of

_BLOCK = 512
_ZIP_MARK = b"PK\x03\x04"
_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(ValueError, LookupError, OverflowError, RuntimeError, struct.error),
)
"""zipfile raises those of the last line for nonsense in headers."""
Wanted = Callable[[str], bool]
"""Whether the content of a member of this name is read."""
Members = Iterator[tuple[str, Iterator[bytes] | None]]


def _safe(origin: Origin, name: str) -> str:
    """The name without the `.` that tar writes among its directories.

    Raises:
        DataError: it is absolute or leads out.
    """
    parts = name.replace("\\", "/").split("/")
    if not parts[0] or ".." in parts or parts[0].endswith(":"):
        raise DataError(
            f"{origin.name}: unsafe_member {shown(name)} leads out of the archive; nothing of it "
            "is used: pack it again with relative names"
        )
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _no_file(origin: Origin, name: str, kind: str) -> DataError:
    return DataError(
        f"{origin.name}: unsafe_member {shown(name)} is a {kind}; nothing of it is used: pack it "
        "again with the files themselves"
    )


def zip_members(origin: Origin, wanted: Wanted) -> Members:
    """The members of a zip."""
    _check_is_zip(origin)
    with _damage_raised(origin), zipfile.ZipFile(origin.path) as archive:
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


def _check_is_zip(origin: Origin) -> None:
    """Raises DataError where the bytes are compressed, as a tar's may be and a zip's are not, or
    are no zip's. One that is cut or damaged still begins as a zip does."""
    with origin.path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if codec := codec_of(head):
        raise DataError(
            f"{origin.name}: starts as {codec} does, not as a zip, and no zip is read from "
            f"{codec}: decompress the file, and give what is in it"
        )
    # One that unpacks itself begins with a program.
    if not head.startswith(b"PK") and not zipfile.is_zipfile(origin.path):
        raise _another_kind(origin, head, "zip")


def _another_kind(origin: Origin, head: bytes, expected: str) -> DataError:
    kind, do = kind_of(origin, head)
    return DataError(
        f"{origin.name}: found {kind or 'something else'} (starts with {shown(head[:8])}), "
        f"expected a {expected}: {do or 'rename it to what it is, or fetch it again'}"
    )


def tar_members(origin: Origin, wanted: Wanted) -> Members:
    """The members of a tar, plain or compressed."""
    with origin.path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(_ZIP_MARK):
        raise _another_kind(origin, head, "tar")
    stream: Any = _Stream(origin)
    with _damage_raised(origin):
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
    """Raises if the end mark (zero blocks) is missing, or anything follows it."""
    # The archive is read block by block, so the last block read is the one that ended the members.
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
def _damage_raised(origin: Origin) -> Generator[None, None, None]:
    """What zipfile and tarfile raise on damage becomes DamagedFile."""
    try:
        yield
    except DataError:
        raise
    except _DAMAGE as error:
        raise DamagedFile(
            f"{origin.name}: damaged archive ({cause(error)}); fetch or pack it again"
        ) from error


def _read(origin: Origin, file: IO[bytes]) -> Iterator[bytes]:
    with _damage_raised(origin):
        while piece := file.read(PIECE_BYTES):
            yield piece


class _Stream:
    """The decompressed bytes of a tar as a file to read; remembers the last block."""

    def __init__(self, origin: Origin) -> None:
        self._pieces = pieces(origin)
        self._piece, self._position = b"", 0
        self.tail = b""

    def read(self, count: int) -> bytes:
        content = self._piece[self._position : self._position + count]
        self._position += len(content)
        while len(content) < count:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._piece, self._position = piece, count - len(content)
            content += piece[: self._position]
        self.tail = content or self.tail
        return content
