"""One builder per key, by a lock that the kernel frees when its last holder dies.

    data/.locks/<stage>-<key>     flock; the file's text says who holds it, for whoever waits

The lock belongs to the open descriptor, so a child that inherits it keeps the key locked for as
long as it may still write.
"""

import errno
import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks.errors import ArtifactError

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
REMIND_SECONDS = 30.0


@contextmanager
def locked(path: Path, what: str, *, shared: bool = False) -> Generator[int, None, None]:
    """The descriptor of a locked file; waits for whoever holds it, and says so.

    `shared`: others that share it may hold it, too; nobody else may.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, writable = _opened(path, os.O_CREAT)
    try:
        _acquire(descriptor, path, what, shared)
        if writable:
            mine = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(mine).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock right now."""
    if not path.exists():
        return False
    descriptor, _ = _opened(path)
    try:
        return not _try(descriptor, path)
    finally:
        os.close(descriptor)


def _opened(path: Path, create: int = 0) -> tuple[int, bool]:
    """The lock file's descriptor, and whether it is writable, which some file systems need to lock
    it. In a store that users share, the umask of its maker decides whether others may write."""
    try:
        return os.open(path, os.O_RDWR | create | os.O_CLOEXEC, 0o666), True
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS) or not path.exists():
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC), False


def _acquire(descriptor: int, path: Path, what: str, shared: bool) -> None:
    reminded = -REMIND_SECONDS
    start = time.monotonic()
    while not _try(descriptor, path, shared):
        waited = time.monotonic() - start
        if waited - reminded >= REMIND_SECONDS:
            reminded = waited
            logger.info("%s: waiting for %s (%.0f s so far)", what, holder(path), waited)
        time.sleep(POLL_SECONDS)


def _try(descriptor: int, path: Path, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise ArtifactError(
                f"the file system of {path.parent} has no flock; keep data/ on a local disk or "
                "on NFS version 4"
            ) from error
        raise
    return True


def holder(path: Path) -> str:
    """Who holds a lock, as far as is known; of several, the last to come."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(path.read_bytes())
        return f"process {noted['pid']} on {noted['host']}"
    return "another process"
