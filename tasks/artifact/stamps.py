"""Stamps: the file system's metadata of an artifact's files, as it was when it was committed.

    logs/stamps.json    {name: [device, inode, bytes, modified, changed]}

While a file's stamp is the same, nobody has written to it, so its bytes need not be hashed again.
The kernel sets the change time; no program can set it back. It also changes when a hard link to the
file is made or removed: then the file is hashed again, and so are the files of a copied store. (The
garbage collection, which removes links, updates the stamps of files that were unchanged before it.)
Bytes that a disk loses by itself leave the stamp as it is: `verify --deep` reads all files.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tasks.artifact.durable import read_json, write_json

STAMPS = "logs/stamps.json"
TICK_NANOSECONDS = 10**7
"""A file that was written to more recently may be written to again within the same clock tick."""

Stamp = list[int]


def stamp(path: Path | str) -> Stamp:
    """The file's stamp, which changes when it is written to or replaced.

    Raises:
        OSError: there is no such file.
    """
    return stamp_of(os.stat(path))  # noqa: PTH116 (of many files, whose paths are text)


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file, given its `stat`."""
    return [
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    ]


def same_but_linked(before: Stamp, now: Stamp) -> bool:
    """Whether two stamps differ at most in the change time, as after a hard link was made."""
    return before[:-1] == now[:-1]


def settled_stamps(statuses: Mapping[str, os.stat_result]) -> dict[str, Stamp]:
    """The stamps of files, given their statuses; an empty one, which never holds, for a file that
    was written to just now.

    The modification time decides: files that were only renamed or linked just now are not counted
    as written to.
    """
    stamps = {name: stamp_of(status) for name, status in statuses.items()}
    limit = time.time_ns() - TICK_NANOSECONDS
    return {name: found if found[-2] < limit else [] for name, found in stamps.items()}


def note_stamps(directory: Path, stamps: Mapping[str, Stamp]) -> None:
    """Writes the stamps that an artifact's files had before they were hashed."""
    write_json(directory / STAMPS, dict(stamps), "later")


def noted_stamps(directory: Path) -> dict[str, Stamp]:
    """The recorded stamps of an artifact's files; empty where they are missing or damaged."""
    with suppress(OSError):
        noted = read_json(directory / STAMPS)
        return noted if isinstance(noted, dict) else {}
    return {}


def untouched_stamps(directory: Path) -> dict[str, Stamp]:
    """The recorded stamps of the files that have not changed since."""
    found: dict[str, Stamp] = {}
    for name, noted in noted_stamps(directory).items():
        with suppress(OSError):
            if stamp(directory / name) == noted:
                found[name] = noted
    return found


def note_links(directory: Path, before: Mapping[str, Stamp]) -> None:
    """Updates the recorded stamps after hard links to the files were made or removed.

    `before`: the stamps that held until then. Nothing is updated if a file was written to since.
    """
    now: dict[str, Stamp] = {}
    with suppress(OSError):  # the artifact itself may be gone by now
        for name, held in before.items():
            now[name] = stamp(directory / name)
            if not same_but_linked(held, now[name]):
                return
        if now != before:
            note_stamps(directory, {**noted_stamps(directory), **now})
