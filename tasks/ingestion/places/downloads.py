"""Remote files: the version that the key pins, and a download that is complete or an error.

pin       identifies the content before it is fetched: ETag, or SHA-256 if there is none
download  tried again with growing pauses, continued where it was cut, and checked against the pin
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
"""A server that asks for a longer wait (Retry-After) is asked again after this one."""
DIGEST_PIN = "sha256:"
"""Prefix of a pin that is a hash of the content."""

Result = TypeVar("Result")
_BARE_QUERY = re.compile(r"\?[^\s'\")]+")
"""The query of a path without host, as errors of connections quote it."""


class CutShort(OSError):
    """Fewer bytes came than announced; the rest can be requested."""


class Busy(OSError):
    """The server asks to try again after `seconds`; 0: it gives no time."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True)
class Remote:
    """One remote file, in the version that was found when the key was made."""

    name: str
    """Its URL without userinfo, query and fragment."""
    pin: str
    """Version of its content: an ETag or the like, or `DIGEST_PIN` and a SHA-256."""
    size: int | None
    read: Callable[[int], tuple[int, Iterator[bytes]]] = field(repr=False)
    """`read(offset)`: where the bytes begin (0 if the server cannot continue), and the bytes.
    Raises DataError if the file is no longer the pinned version, OSError for temporary errors."""
    server_names: tuple[str, ...] = ()
    """File names that its server gives it, the surest first."""


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
    """What `attempt` returns, which is called again after an OSError: `TRIES` times in all.

    `done` measures progress, such as bytes on disk; when it has grown, tries count anew.

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
            wait = min(error.seconds, LONGEST_PAUSE_SECONDS) if isinstance(error, Busy) else 0.0
            if wait > (pause := PAUSE_SECONDS * 2 ** (failed - 1)):
                logger.info("%s: its server asks to wait; next try in %.0f s", name, wait)
            time.sleep(max(wait, pause))


def pinned_by_content(
    name: str,
    size: int | None,
    read: Callable[[int], tuple[int, Iterator[bytes]]],
    server_names: tuple[str, ...] = (),
) -> Remote:
    """A file whose server gives no version: it is read once for its SHA-256."""

    def digest() -> str:
        sha256, count = hashlib.sha256(), 0
        for piece in read(0)[1]:
            sha256.update(piece)
            count += len(piece)
        if size is not None and count != size:
            raise CutShort(f"{count:,} of {size:,} bytes came")
        return sha256.hexdigest()

    return Remote(name, DIGEST_PIN + with_retries(name, digest), size, read, server_names)


def download(remote: Remote, target: Path, advance: Callable[[int], object]) -> str:
    """Downloads the file to `target`, continuing a `.part` of a killed attempt; returns its
    SHA-256.

    Raises:
        DataError: it cannot be fetched whole, or its content is no longer the pinned version.
    """
    part = target.with_name(f"{target.name}.part")

    def attempt() -> None:
        with part.open("ab") as file:
            while (size := file.tell()) != remote.size:  # a server may send it in parts
                start, pieces = remote.read(size)
                file.truncate(start)
                file.seek(start)  # else `tell` counts from where the file ended before
                for piece in pieces:
                    file.write(piece)
                    file.flush()  # so a kill loses nothing
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


def range_start(content_range: str | None, requested: int) -> int:
    """The offset at which a partial response begins, by its `Content-Range`: some servers begin
    before the one requested."""
    match = re.match(r"bytes (\d+)-", content_range or "")
    return int(match[1]) if match else requested


def changed(name: str) -> DataError:
    """The error of a file that no longer has the version in the key."""
    return DataError(
        f"{name} changed while it was fetched (changed_during_read); nothing of it was used: run "
        "again to take the new content"
    )
