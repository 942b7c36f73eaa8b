"""The data files within `.tar` (plain or compressed) and `.zip`, unpacked one archive at a time.

    raw.zip                   every data file in it
    raw.tar.gz!/train/*.jsonl only the members that the glob matches (`*` crosses directories,
                              `**/` may match none)

An archive is refused as a whole if it is a bomb, or if any member leads out of it, or is a link or
a device. Names of members never become paths on disk.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

from tasks.errors import DataError, shown
from tasks.ingestion.formats.batches import Origin
from tasks.ingestion.formats.decompression import check_bomb
from tasks.ingestion.places.archive_members import Wanted, tar_members, zip_members
from tasks.ingestion.places.prefixes import PiecesHash
from tasks.ingestion.places.unread_files import may_hold_rows
from tasks.ingestion.places.writable_names import unwritable

MEMBERS_LIMIT = 100_000
SEPARATOR = "!/"


@dataclass(frozen=True)
class Member:
    """One unpacked file."""

    name: str
    """Within the archive."""
    path: Path
    size: int
    digest: str


@dataclass(frozen=True)
class Unpacked:
    """The result of unpacking an archive."""

    members: list[Member]
    """Sorted by name."""
    left_out: list[str]
    """Names of members that may hold rows, but in an unknown format."""


def split_members(path: str) -> tuple[str, str | None]:
    """The path of an archive and the glob of its members, or the whole path and None.

    A directory whose name ends in `!` is no archive.
    """
    archive, found, members = path.partition(SEPARATOR)
    if not found or Path(f"{archive}!").expanduser().is_dir():
        return path, None
    return archive, members


def unpack(
    origin: Origin, kind: str, pattern: str | None, is_data: Wanted, target: Path
) -> Unpacked:
    """Unpacks the member of this name, or those that match the pattern (None: all data files), to
    numbered files below `target`.

    Raises:
        DataError: the archive is unsafe, a bomb or damaged, no member matches, or the name of one
            has characters that no line can hold.
    """
    if not origin.path.stat().st_size:
        raise DataError(f"{origin.name}: empty_file: an archive of no bytes; fetch it again")
    read = zip_members if kind == "zip" else tar_members
    found: list[Member] = []
    left_out: list[str] = []
    total = count = 0
    for count, (name, content) in enumerate(read(origin, _chooses(pattern, is_data)), 1):
        if count > MEMBERS_LIMIT:
            raise DataError(f"{origin.name}: over {MEMBERS_LIMIT:,} members; unpack it yourself")
        if content is None:
            if pattern is None and may_hold_rows(name) and not _is_hidden(name):
                left_out.append(name.encode("utf-8", "backslashreplace").decode())
            continue
        if fault := unwritable(name):
            raise DataError(
                f"{origin.name}: the name of member {shown(name, 200)} {fault}; pack it again "
                "under another"
            )
        member = _extract(origin, name, content, target / f"{len(found):05d}", total)
        total += member.size
        found.append(member)
    if not found:
        raise DataError(
            f"{origin.name}: none of its {count:,} members "
            + ("is a data file" if pattern is None else f"matches {shown(pattern)}")
            + f"; name them as {Path(origin.name).name}{SEPARATOR}train/*.jsonl"
        )
    found = [member for member in found if member.name == pattern] or found
    found.sort(key=lambda member: member.name)
    if twice := next((a.name for a, b in pairwise(found) if a.name == b.name), None):
        raise DataError(f"{origin.name}: member {shown(twice)} is in it twice; pack it again")
    return Unpacked(found, sorted(left_out))


def _extract(origin: Origin, name: str, content: Iterator[bytes], path: Path, total: int) -> Member:
    """Writes one member to `path`; `total` bytes were unpacked before it."""
    digest, written, packed = PiecesHash(), 0, origin.path.stat().st_size
    with path.open("wb") as file:
        for piece in content:
            file.write(piece)
            digest.update(piece)
            written += len(piece)
            check_bomb(origin, packed, total + written, "unpack it yourself")
    return Member(name, path, written, digest.hexdigest())


def _chooses(pattern: str | None, is_data: Wanted) -> Wanted:
    """Decides by a member's name whether it is unpacked."""
    if pattern is None:
        return lambda name: is_data(name) and not _is_hidden(name)
    globs = _globs(pattern)
    return lambda name: name == pattern or any(fnmatchcase(name, glob) for glob in globs)


def _globs(pattern: str) -> list[str]:
    """Patterns of `fnmatch` that together match what this one does: `**/` crosses any number of
    directories, or none."""
    before, found, after = pattern.partition("**/")
    if not found or before[-1:] not in ("", "/"):
        return [pattern]
    return [before + across + rest for across in ("*/", "") for rest in _globs(after)]


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
