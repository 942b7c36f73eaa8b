"""Content digests of files, cached: of small files in this process, of large ones on the disk.

A cached digest is used only while the file's device, inode, size, modification time and change time
are as they were before it was hashed. The kernel sets the change time; no program can set it back.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from tasks.artifact.key import digest_json
from tasks.artifact.stamps import Stamp, stamp, stamp_of
from tasks.artifact.threads import threaded_map

SMALL_FILE_BYTES = 16 * 2**20
"""Smaller files are hashed by each process, which is cheaper than the cache on the disk."""
SETTLED_NANOSECONDS = 2 * 10**9
"""A file that changed more recently may change again within the same clock tick: not cached."""


def file_digest(path: Path, hashed: Callable[[Path], str] | None = None, kind: str = "") -> str:
    """SHA-256 (hex) of a file's bytes, from a cache where possible.

    `hashed` computes another digest instead; `kind` then names it in the caches.
    """
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
    """Caches a digest that the caller knows, of a file that nobody else writes to.

    `known`: the file's stamp, if the caller has it.
    """
    _remembered[str(path)] = (known or stamp(path), digest)


def digests_of(stamps: Mapping[Path, Stamp]) -> dict[Path, str]:
    """SHA-256 (hex) of files, given their stamps: as remembered, if the stamp is still the same."""
    known = {path: _still_known(path, now) for path, now in stamps.items()}
    left = [path for path, digest in known.items() if not digest]
    return known | dict(zip(left, threaded_map(file_digest, left), strict=True))


def move(path: Path, place: Path) -> None:
    """Renames a file; its remembered digest moves along."""
    digest = _still_known(path, stamp(path))
    path.replace(place)
    if digest:
        remember(place, digest)


def _still_known(path: Path, now: Stamp) -> str:
    before, digest = _remembered.get(str(path), ([], ""))
    return digest if before == now else ""


_remembered: dict[str, tuple[Stamp, str]] = {}


def merkle(digests: dict[str, str]) -> str:
    """One digest for a set of files, of their names and contents alone."""
    return digest_json(digests)


def cache_directory() -> Path:
    """This user's cache directory for this project."""
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
    """Replaces the cache file; does nothing where it cannot be written, which only costs time."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(cache))
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
