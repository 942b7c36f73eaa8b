"""Content digests of files. A file that has not changed since is not read again: a large one not
by later processes either.

The caches trust a file only while device, inode, size, modification and change time are all as
they were before it was hashed. The change time is the kernel's: no program can set it back.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from tasks.artifact.beside import side_by_side
from tasks.artifact.key import digest_json
from tasks.artifact.stamps import Stamp, stamp, stamp_of

SMALL_FILE_BYTES = 16 * 2**20
"""Below this a file is hashed by each process: cheaper than to look it up."""
SETTLED_NANOSECONDS = 2 * 10**9
"""A file changed more recently than this may change again within one clock tick: not cached."""


def file_digest(path: Path, hashed: Callable[[Path], str] | None = None, kind: str = "") -> str:
    """SHA-256 (hex) of a file's bytes; `hashed` reads it, where it has to be read, and may make
    another digest of them: then `kind` names that."""
    hashed = hashed or hash_file
    now, status = time.time_ns(), path.stat()
    before = stamp_of(status)
    settled = now - before[-1] > SETTLED_NANOSECONDS
    if status.st_size < SMALL_FILE_BYTES:
        known = _of_small.get((kind, *before))
        if known is None:
            known = hashed(path)
            if settled:
                _of_small[kind, *before] = known
        return known
    cache_path = _cache_path()
    name = f"{kind}:{path.resolve()}" if kind else str(path.resolve())
    *noted, digest = _read_cache(cache_path).get(name) or [""]
    if noted != before:
        digest = hashed(path)
        if settled:
            with _writing:
                _write_cache(cache_path, {**_read_cache(cache_path), name: [*before, digest]})
    return str(digest)


_of_small: dict[tuple[str | int, ...], str] = {}
"""By kind and stamp."""
_writing = Lock()


def hash_file(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remember(path: Path | str, digest: str, known: Stamp | None = None) -> None:
    """Notes the digest of a file that is known just now, in a place where nobody else writes.
    `known`: the file's stamp, where that is at hand."""
    _remembered[str(path)] = (known or stamp(path), digest)


def digests_of(stamps: Mapping[Path, Stamp]) -> dict[Path, str]:
    """SHA-256 (hex) of the bytes of files, given their stamps: as remembered, where they are as
    they were then."""
    known = {path: _still_known(path, now) for path, now in stamps.items()}
    left = [path for path, digest in known.items() if not digest]
    return known | dict(zip(left, side_by_side(file_digest, left), strict=True))


def move(path: Path, place: Path) -> None:
    """Renames a file; what is remembered of it stays known."""
    digest = _still_known(path, stamp(path))
    path.replace(place)
    if digest:
        remember(place, digest)


def _still_known(path: Path, now: Stamp) -> str:
    before, digest = _remembered.get(str(path), ([], ""))
    return digest if before == now else ""


_remembered: dict[str, tuple[Stamp, str]] = {}


def merkle(digests: dict[str, str]) -> str:
    """One digest for a set of files: their names and contents, whatever their place and time."""
    return digest_json(digests)


def cache_directory() -> Path:
    """Where this user's processes note for each other what costs time to find out."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "reward-pipeline"


def _cache_path() -> Path:
    return cache_directory() / "digests.json"


def _read_cache(path: Path) -> dict[str, list[Any]]:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}


def _write_cache(path: Path, cache: dict[str, list[Any]]) -> None:
    """Replaces the cache; losing it only costs time, so an unwritable home is no failure."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(cache))
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
