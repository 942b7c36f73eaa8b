"""How the file system knew the files of an artifact when it was committed.

    logs/stamps.json    {name: [device, inode, bytes, modified, changed]}

While it knows a file just so, nobody has written to it: its bytes are those of the record, and are
not read again to be believed. The time of change is the kernel's; no program can set it back. It
is another one, too, where a name of the file came or went: then the bytes are read, as they are of
a copy elsewhere (the collection, which takes names away, notes what it found untouched before).
What a disk loses by itself shows when bytes are read: `verify --deep` reads them all.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tasks.artifact.durable import read_json, write_json

STAMPS = "logs/stamps.json"
TICK_NANOSECONDS = 10**7
"""A file that was written to within this time may be written to again without another time."""

Stamp = list[int]


def stamp(path: Path | str) -> Stamp:
    """What differs once a file has been written to, or is another one.

    Raises:
        OSError: there is no such file.
    """
    return stamp_of(os.stat(path))  # noqa: PTH116 (of many files, whose paths are text)


def stamp_of(status: os.stat_result) -> Stamp:
    """The same, where the file's status is at hand."""
    return [
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    ]


def same_but_linked(before: Stamp, now: Stamp) -> bool:
    """Whether nobody has written to a file that got or lost another name in between."""
    return before[:-1] == now[:-1]


def settled_stamps(statuses: Mapping[str, os.stat_result]) -> dict[str, Stamp]:
    """The stamps of files, given their statuses; of one just written to, none that holds.

    One that has just got another name, as all do that are put in place at the end, is as it was:
    whoever writes to it from now on sets its time of modification.
    """
    stamps = {name: stamp_of(status) for name, status in statuses.items()}
    limit = time.time_ns() - TICK_NANOSECONDS
    return {name: found if found[-2] < limit else [] for name, found in stamps.items()}


def note_stamps(directory: Path, stamps: Mapping[str, Stamp]) -> None:
    """Notes the stamps that an artifact's files had before they were hashed."""
    write_json(directory / STAMPS, dict(stamps), "later")


def noted_stamps(directory: Path) -> dict[str, Stamp]:
    """What was noted of an artifact's files; nothing where that is gone or no notes."""
    with suppress(OSError):
        noted = read_json(directory / STAMPS)
        return noted if isinstance(noted, dict) else {}
    return {}


def untouched_stamps(directory: Path) -> dict[str, Stamp]:
    """Those of the noted stamps that still hold."""
    found: dict[str, Stamp] = {}
    for name, noted in noted_stamps(directory).items():
        with suppress(OSError):
            if stamp(directory / name) == noted:
                found[name] = noted
    return found


def note_links(directory: Path, before: Mapping[str, Stamp]) -> None:
    """Notes anew what held `before` names of the files came or went, and nobody has written to."""
    now: dict[str, Stamp] = {}
    with suppress(OSError):  # the artifact itself may be gone by now
        for name, held in before.items():
            now[name] = stamp(directory / name)
            if not same_but_linked(held, now[name]):
                return
        if now != before:
            note_stamps(directory, {**noted_stamps(directory), **now})
