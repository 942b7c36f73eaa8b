"""How the file system knew the files of an artifact when it was committed.

    logs/stamps.json    {name: [device, inode, bytes, modified, changed]}

While it knows a file just so, nobody has written to it: its bytes are those of the record, and are
not read again to be believed. The time of change is the kernel's; no program can set it back. It
is another one after a hard link, too: then the bytes are read, as they are of a copy elsewhere.
What a disk loses by itself shows when they are read: `verify --deep` reads them all.
"""

from collections.abc import Iterable
from pathlib import Path

from tasks.artifact.durable import read_json, write_json

STAMPS = "logs/stamps.json"

Stamp = list[int]


def stamp(path: Path) -> Stamp:
    """What differs once a file has been written to, or is another one.

    Raises:
        OSError: there is no such file.
    """
    status = path.stat()
    return [
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    ]


def same_but_linked(before: Stamp, now: Stamp) -> bool:
    """Whether nobody has written to a file that has got another name in between."""
    return before[:-1] == now[:-1]


def note_stamps(directory: Path, names: Iterable[str]) -> None:
    """Notes the stamps of an artifact's files, whose digests are known and which nobody changes."""
    write_json(directory / STAMPS, {name: stamp(directory / name) for name in names}, durable=False)


def noted_stamps(directory: Path) -> dict[str, Stamp]:
    """What was noted of an artifact's files; nothing where that is gone or no notes."""
    noted = read_json(directory / STAMPS)
    return noted if isinstance(noted, dict) else {}
