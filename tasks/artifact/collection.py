"""Garbage collection of the artifacts that nothing refers to.

    data/.locks/runs    a lock that all running pipelines share, and the collection holds alone

Artifacts that can be reached from a ref, through the inputs in the records, stay. All others are
moved to the trash, each under its key's lock, and deleted after a grace period. A run's ref lists
what it has obtained so far, but the run may also use what it merely found: so nothing is collected
while any run is going.
"""

import errno
import logging
import shutil
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tasks.artifact.durable import TEMPORARY_SUFFIX, explained_disk_errors
from tasks.artifact.inventory import by_name, committed, lock_of
from tasks.artifact.lock import holder, is_locked, locked
from tasks.artifact.record import Artifact
from tasks.artifact.refs import RUN, UNFINISHED, Name, kept_by, refs
from tasks.artifact.stamps import note_links, untouched_stamps
from tasks.artifact.store import Store
from tasks.errors import ArtifactError

logger = logging.getLogger(__name__)

GRACE_SECONDS = 24 * 3600.0
RUNS = "runs"


@dataclass(frozen=True)
class Swept:
    """One directory that the collection removed, or would remove."""

    path: Path
    bytes: int
    why: str
    trashed: bool = False
    """It is in the trash, and takes up space until the grace period is over."""


@contextmanager
def in_use(store: Store) -> Generator[None, None, None]:
    """Within it, nothing is collected; waits for a collection that is going on.

    In a store that cannot be written to nothing can be collected, so no lock is needed there.

    Raises:
        ArtifactError: the disk is full.
    """
    with ExitStack() as held:
        with explained_disk_errors(store.root):
            try:
                held.enter_context(locked(store.root / ".locks" / RUNS, "run", shared=True))
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES):
                    raise
        yield


@contextmanager
def not_in_use(store: Store, what: str, *, dry_run: bool = False) -> Generator[None, None, None]:
    """Within it, no run goes on; a run that begins waits for its end, but not for a dry run's.

    Raises:
        ArtifactError: a run is going, or the store cannot be written to.
    """
    runs = store.root / ".locks" / RUNS
    with explained_disk_errors(store.root):
        if is_locked(runs):
            raise ArtifactError(
                f"{holder(runs)} is using the artifacts below {store.root}; try again once its run "
                "has ended"
            )
        with nullcontext() if dry_run else locked(runs, what):
            yield


def collect(
    store: Store, *, keep_runs: int = 5, let_go: Collection[Path] = (), dry_run: bool = False
) -> list[Swept]:
    """Removes unreachable artifacts, abandoned work and old trash; what was removed, or would be.

    `let_go`: refs that are removed, too, and keep nothing any more.

    Raises:
        ArtifactError: a run is going, or the store cannot be written to.
    """
    if not store.root.exists():
        return []
    with not_in_use(store, "gc", dry_run=dry_run):
        return _collected(store, keep_runs, let_go, dry_run)


def _collected(
    store: Store, keep_runs: int, let_go: Collection[Path], dry_run: bool
) -> list[Swept]:
    stale = [ref for kind in (RUN, UNFINISHED) for ref in refs(store, kind)[:-keep_runs]]
    stale += [*let_go, *(store.root / "refs").glob(f"*{TEMPORARY_SUFFIX}")]  # cut by a kill
    artifacts = committed(store)
    alive = _reachable(by_name(artifacts), {*refs(store)} - {*stale})
    swept: list[Swept] = []
    for path, lock, why in _out_of_reach(store, artifacts, alive):
        if is_locked(lock):
            continue
        swept.append(Swept(path, size_of(path), why, True))
        if not dry_run:
            with locked(lock, "gc"):
                store.discard(path)
    swept += [_old(path, "abandoned work") for path in _abandoned(store)]
    swept += [_old(path, "trash") for path in _expired(store.root / ".trash")]
    if not dry_run:
        for path in stale:
            path.unlink()
        kept = {path: untouched_stamps(path) for path in artifacts}
        swept = [entry for entry in swept if entry.trashed or _deleted(entry.path)]
        for directory, stamps in kept.items():
            note_links(directory, stamps)
    return swept


def _deleted(directory: Path) -> bool:
    """Deletes a directory; whether all of it is gone. The others are collected all the same."""
    try:
        shutil.rmtree(directory)
    except OSError as error:
        logger.warning("%s cannot be deleted: %s", directory, error)
        return False
    return True


def size_of(directory: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _reachable(artifacts: Mapping[Name, Artifact], roots: Iterable[Path]) -> set[Name]:
    """What these refs keep, and all that it was made from."""
    waiting = [name for path in roots for name in kept_by(path)]
    alive: set[Name] = set()
    while waiting:
        name = waiting.pop()
        if name in alive:
            continue
        alive.add(name)
        if name in artifacts:
            inputs = artifacts[name].record["inputs"].values()
            waiting += [(entry["stage"], entry["key"]) for entry in inputs]
    return alive


def _out_of_reach(
    store: Store, artifacts: Mapping[Path, Artifact | str], alive: set[Name]
) -> Iterator[tuple[Path, Path, str]]:
    """Each directory that no ref leads to, its lock, and why it goes; what has no lock stays."""
    keys = {key for _, key in alive}
    for place, artifact in artifacts.items():
        why = "out of reach of every ref"
        if isinstance(artifact, Artifact):
            reached = (artifact.stage, artifact.key) in alive
        else:
            reached = place.name in keys
            why += ", its record cannot be read"
        if not reached and (lock := lock_of(store, place, artifact)):
            yield place, lock, why


def _abandoned(store: Store) -> list[Path]:
    """Work directories that nobody has locked or written to within the grace period."""
    return [
        path
        for path in _expired(store.root / ".work")
        if max(map(_modified, path.rglob("*")), default=0.0) < _limit()
        and not is_locked(store.root / ".locks" / path.name)
    ]


def _expired(directory: Path) -> list[Path]:
    return [p for p in sorted(directory.glob("*")) if p.is_dir() and _modified(p) < _limit()]


def _modified(path: Path) -> float:
    return path.lstat().st_mtime


def _limit() -> float:
    return time.time() - GRACE_SECONDS


def _old(path: Path, why: str) -> Swept:
    return Swept(path, size_of(path), f"{why}, older than {GRACE_SECONDS / 3600:.0f} hours")
