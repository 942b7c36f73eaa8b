"""Remote files: what each is pinned to in the key, and its bytes on disk, whole or not at all.

pin       what stands for the content before it is fetched: ETag, or SHA-256 where there is none
download  tried again with growing pauses, continued where it was cut, and held against the pin
"""

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tasks.artifact import file_digest
from tasks.errors import DataError
from tasks.ingestion.redaction import redacted

logger = logging.getLogger(__name__)

TRIES = 5
PAUSE_SECONDS = 1.0
"""Wait before the second try; doubled before each further one."""
LONGEST_PAUSE_SECONDS = 60.0
"""Longest wait that a server's Retry-After is followed for."""
DIGEST_PIN = "sha256:"
"""Prefix of a pin that is a hash of the content."""

Result = TypeVar("Result")
_BARE_QUERY = re.compile(r"\?[^\s'\")]+")
"""Of a path without its host, as the errors of connections quote it."""


class CutShort(OSError):
    """Fewer bytes came than announced; the rest can be requested."""


class Busy(OSError):
    """The server asks to try again after `seconds`; 0: it did not say when."""

    def __init__(self, found: str, seconds: float) -> None:
        super().__init__(found)
        self.seconds = seconds


@dataclass(frozen=True)
class Remote:
    """One remote file, in the version that was found when the key was made."""

    name: str
    """Its URL without userinfo, query and fragment."""
    pin: str
    """Identifies the version of its content: an ETag or the like, or a SHA-256."""
    size: int | None
    read: Callable[[int], tuple[int, Iterator[bytes]]] = field(repr=False)
    """`read(offset)`: where the bytes begin (0 if the server cannot continue), and the bytes.
    Raises DataError if the file is no longer the pinned version, OSError for temporary errors."""
    said: tuple[str, ...] = ()
    """File names that the server gives it (`said_names`)."""


def is_url(path: str) -> bool:
    """Whether a source's path is a URL of any scheme."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None


def cause_of(error: BaseException) -> str:
    """The error's first line, without anything that may be a secret."""
    lines = str(error).splitlines()
    kind = type(error).__name__
    return f"{kind}: {_BARE_QUERY.sub('?***', redacted(lines[0]))}" if lines else kind


def with_retries(
    name: str, attempt: Callable[[], Result], done: Callable[[], int] = lambda: 0
) -> Result:
    """What `attempt` returns; after an OSError it is tried again, `TRIES` times without progress.

    `done`: a measure of progress, such as bytes on the disk; tries count anew when it grows.

    Raises:
        DataError: at once if `attempt` raises it; or after the last try.
    """
    failed, furthest = 0, done()
    while True:
        try:
            return attempt()
        except OSError as error:
            failed = failed + 1 if done() <= furthest else 1
            furthest = max(furthest, done())
            if failed == TRIES:
                raise DataError(
                    f"{name}: not fetched in {TRIES} tries ({cause_of(error)}); check the address "
                    "and the network, then run again: it continues"
                ) from error
            asked = min(error.seconds, LONGEST_PAUSE_SECONDS) if isinstance(error, Busy) else 0.0
            if asked > (pause := PAUSE_SECONDS * 2 ** (failed - 1)):
                logger.info("%s: its server asks to wait; next try in %.0f s", name, asked)
            time.sleep(max(asked, pause))


def pinned_by_content(
    name: str,
    size: int | None,
    read: Callable[[int], tuple[int, Iterator[bytes]]],
    said: tuple[str, ...] = (),
) -> Remote:
    """A file whose server names no version: read once for its SHA-256."""

    def digest() -> str:
        found, count = hashlib.sha256(), 0
        for piece in read(0)[1]:
            found.update(piece)
            count += len(piece)
        if size is not None and count != size:
            raise CutShort(f"{count:,} of {size:,} bytes came")
        return found.hexdigest()

    return Remote(name, DIGEST_PIN + with_retries(name, digest), size, read, said)


def download(remote: Remote, target: Path, advance: Callable[[int], object]) -> str:
    """The SHA-256 of the file, which then stands at `target`.

    An earlier, killed attempt's `.part` is continued.

    Raises:
        DataError: it cannot be fetched whole, or is no longer the pinned one.
    """
    part = target.with_name(f"{target.name}.part")

    def attempt() -> None:
        with part.open("ab") as file:
            while (size := file.tell()) != remote.size:  # a server may part it as it likes
                start, pieces = remote.read(size)
                file.truncate(start)
                file.seek(start)  # else `tell` counts from where the file ended before
                for piece in pieces:
                    file.write(piece)
                    file.flush()  # a kill loses nothing that came
                    advance(len(piece))
                if remote.size is None:
                    return
                if file.tell() > remote.size:
                    part.unlink()
                    raise changed(remote.name)
                if file.tell() <= size:
                    raise CutShort(f"{size:,} of {remote.size:,} bytes came")

    with_retries(remote.name, attempt, lambda: part.stat().st_size if part.exists() else 0)
    digest = file_digest(part)
    if remote.pin.startswith(DIGEST_PIN) and remote.pin != DIGEST_PIN + digest:
        part.unlink()
        raise changed(remote.name)
    part.replace(target)
    return digest


def begins_at(told: str | None, asked: int) -> int:
    """Where a part of a file begins, by its `Content-Range`: some servers begin before the byte
    that was asked for."""
    found = re.match(r"bytes (\d+)-", told or "")
    return int(found[1]) if found else asked


def changed(name: str) -> DataError:
    """The error of a file that is no longer what the key was made of."""
    return DataError(
        f"{name} changed while it was fetched (changed_during_read); nothing of it was used: run "
        "again to take the new content"
    )
