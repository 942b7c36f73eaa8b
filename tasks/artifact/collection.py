"""Verification of all artifacts, and garbage collection of those that nothing refers to.

    data/.locks/runs    a lock that all running pipelines share, and the collection holds alone

Artifacts that can be reached from a ref, through the inputs in the records, stay. All others are
moved to the trash, each under its key's lock, and deleted after a grace period. A run's ref lists
what it has obtained so far, but the run may also use what it merely found: so nothing is collected
while any run is going.
"""

import errno
import re
import shutil
import time
from collections.abc import Collection, Generator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tasks.artifact.durable import explained_disk_errors
from tasks.artifact.key import KEY_LENGTH
from tasks.artifact.lock import holder, is_locked, locked
from tasks.artifact.record import RECORD, Artifact, closed, damage, read_artifact
from tasks.artifact.refs import RUN, UNFINISHED, Name, keeps, refs
from tasks.artifact.stamps import note_links, untouched_stamps
from tasks.artifact.store import Store
from tasks.errors import ArtifactError

GRACE_SECONDS = 24 * 3600.0
RUNS = "runs"
KEY = re.compile(f"[0-9a-f]{{{KEY_LENGTH}}}")


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
        with explained_disk_errors(store.root if store.root.exists() else Path()):
            try:
                held.enter_context(locked(store.root / ".locks" / RUNS, "run", shared=True))
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES):
                    raise
        yield


def committed(store: Store) -> list[Artifact | str]:
    """Every artifact, or the sentence on why its record cannot be read."""
    return [found for path in _places(store) if (found := read_artifact(path)) is not None]


def by_name(store: Store) -> dict[Name, Artifact]:
    """The artifacts whose records can be read."""
    return {(a.stage, a.key): a for a in committed(store) if isinstance(a, Artifact)}


def _places(store: Store) -> list[Path]:
    """The directories that are artifacts, by a record in them or by their name."""
    places = {path.parent for path in store.root.glob(f"[!.]*/*/{RECORD}")}
    places |= {p for p in store.root.glob("[!.]*/*") if KEY.fullmatch(p.name) and p.is_dir()}
    return sorted(places)


def verify(store: Store, *, deep: bool = False) -> dict[str, str | None]:
    """`{artifact: what is damaged, or None}` for every artifact."""
    return {str(path): _fault(path, deep) for path in _places(store)}


def _fault(path: Path, deep: bool) -> str | None:
    try:
        found = read_artifact(path)
        return damage(found, deep=deep) if isinstance(found, Artifact) else found
    except PermissionError:
        return str(closed(path))
    except ArtifactError as error:
        return str(error)


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
    runs = store.root / ".locks" / RUNS
    with explained_disk_errors(store.root):
        if is_locked(runs):
            raise ArtifactError(
                f"{holder(runs)} is using the artifacts below {store.root}; collect again once its "
                "run has ended"
            )
        with nullcontext() if dry_run else locked(runs, "gc"):
            return _collected(store, keep_runs, let_go, dry_run)


def _collected(
    store: Store, keep_runs: int, let_go: Collection[Path], dry_run: bool
) -> list[Swept]:
    stale = [ref for kind in (RUN, UNFINISHED) for ref in refs(store, kind)[:-keep_runs]]
    stale += let_go
    alive = _reachable(store, ignoring=set(stale))
    swept: list[Swept] = []
    for path, lock, why in _out_of_reach(store, alive):
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
        kept = {a.path: untouched_stamps(a.path) for a in by_name(store).values()}
        for entry in swept:
            shutil.rmtree(entry.path, ignore_errors=True)
        for directory, stamps in kept.items():
            note_links(directory, stamps)
    return swept


def size_of(directory: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _reachable(store: Store, ignoring: set[Path]) -> set[Name]:
    standing = by_name(store)
    waiting = [name for path in refs(store) if path not in ignoring for name in keeps(path)]
    alive: set[Name] = set()
    while waiting:
        name = waiting.pop()
        if name in alive:
            continue
        alive.add(name)
        if name in standing:
            inputs = standing[name].record["inputs"].values()
            waiting += [(entry["stage"], entry["key"]) for entry in inputs]
    return alive


def _out_of_reach(store: Store, alive: set[Name]) -> Generator[tuple[Path, Path, str], None, None]:
    """Each directory that no ref leads to, with its lock, and why it goes.

    Where a record cannot be read, the stage is unknown; the lock file of the same key names it. A
    directory without a lock file is not one of ours and stays.
    """
    locks = store.root / ".locks"
    for place in _places(store):
        found = read_artifact(place)
        if isinstance(found, Artifact):
            if (found.stage, found.key) not in alive:
                yield place, locks / found.name, "out of reach of every ref"
        elif place.name not in {key for _, key in alive}:
            for lock in list(locks.glob(f"*-{place.name}"))[:1]:
                yield place, lock, "out of reach of every ref, its record cannot be read"


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
