"""Verification of all that stands, and collection of what nothing refers to any more.

    data/refs/<kind>-<name>.json    {"keeps": [[stage, key], ...], "facts": ...}: what a finished
                                    run, a registered model version or a pin by hand keeps alive
    data/.locks/runs                shared by all runs that are going

What can be reached from a ref through the records' inputs stays. The rest is renamed into the
trash under its key's lock, and deleted after a grace period. A run has no ref before its end, so
nothing is collected while one is going.
"""

import errno
import re
import shutil
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.artifact.durable import explained_disk_errors, read_json, write_json
from tasks.artifact.key import KEY_LENGTH
from tasks.artifact.lock import holder, is_locked, locked
from tasks.artifact.record import RECORD, Artifact, damage, read_artifact
from tasks.artifact.stamps import note_links, untouched_stamps
from tasks.artifact.store import Store
from tasks.errors import ArtifactError

GRACE_SECONDS = 24 * 3600.0
RUNS = "runs"
KEY = re.compile(f"[0-9a-f]{{{KEY_LENGTH}}}")


@dataclass(frozen=True)
class Swept:
    """One thing that the collection took, or would take."""

    path: Path
    bytes: int
    why: str
    trashed: bool = False
    """It lies in the trash for the grace period, and its bytes are on the disk until then."""


@contextmanager
def in_use(store: Store) -> Generator[None, None, None]:
    """Within, nothing is collected; waits for a collection to end.

    From a store that cannot be written to nothing is taken: what stands there can be looked at.

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


def keep(
    store: Store, kind: str, name: str, artifacts: Iterable[Artifact], facts: Any = None
) -> Path:
    """Writes a ref: these artifacts, and all that they were made from, stay.

    Raises:
        ArtifactError: the store cannot be written to.
    """
    path = store.root / "refs" / f"{kind}-{name}.json"
    with explained_disk_errors(store.root):
        write_json(path, {"keeps": [[a.stage, a.key] for a in artifacts], "facts": facts})
    return path


def last_facts(store: Store, kind: str) -> Any:
    """The facts of the newest ref of a kind, or None where there is none."""
    refs = sorted((store.root / "refs").glob(f"{kind}-*.json"))
    return read_json(refs[-1])["facts"] if refs else None


def run_name() -> str:
    """A name for a run's ref that sorts by time."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def committed(store: Store) -> list[Artifact | str]:
    """Every artifact that stands, or the sentence on why its record cannot be read."""
    return [found for path in _places(store) if (found := read_artifact(path)) is not None]


def _places(store: Store) -> list[Path]:
    """Where something stands that is an artifact by its record or by its name."""
    places = {path.parent for path in store.root.glob(f"[!.]*/*/{RECORD}")}
    places |= {p for p in store.root.glob("[!.]*/*") if KEY.fullmatch(p.name) and p.is_dir()}
    return sorted(places)


def verify(store: Store, *, deep: bool = False) -> dict[str, str | None]:
    """`{artifact: what is damaged, or None}` for every artifact that stands."""
    found = {str(path): read_artifact(path) for path in _places(store)}
    return {
        path: damage(each, deep=deep) if isinstance(each, Artifact) else each
        for path, each in found.items()
    }


def collect(store: Store, *, keep_runs: int = 5, dry_run: bool = False) -> list[Swept]:
    """What was taken (or would be): artifacts out of reach, abandoned work, old trash.

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
            return _collected(store, keep_runs, dry_run)


def _collected(store: Store, keep_runs: int, dry_run: bool) -> list[Swept]:
    stale = sorted((store.root / "refs").glob("run-*.json"))[:-keep_runs] if keep_runs else []
    alive = _reachable(store, ignoring=set(stale))
    swept: list[Swept] = []
    for found in committed(store):
        if isinstance(found, str) or (found.stage, found.key) in alive:
            continue
        lock = store.root / ".locks" / found.name
        if is_locked(lock):
            continue
        swept.append(Swept(found.path, size_of(found.path), "out of reach of every ref", True))
        if not dry_run:
            with locked(lock, "gc"):
                store.discard(found.path)
    swept += [_old(path, "abandoned work") for path in _abandoned(store)]
    swept += [_old(path, "trash") for path in _expired(store.root / ".trash")]
    if not dry_run:
        for path in stale:
            path.unlink()
        kept = {
            a.path: untouched_stamps(a.path) for a in committed(store) if not isinstance(a, str)
        }
        for entry in swept:
            shutil.rmtree(entry.path, ignore_errors=True)
        for directory, stamps in kept.items():
            note_links(directory, stamps)
    return swept


def size_of(directory: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _reachable(store: Store, ignoring: set[Path]) -> set[tuple[str, str]]:
    by_name = {(a.stage, a.key): a for a in committed(store) if isinstance(a, Artifact)}
    waiting = [
        (str(stage), str(key))
        for path in (store.root / "refs").glob("*.json")
        if path not in ignoring
        for stage, key in (read_json(path) or {"keeps": []})["keeps"]
    ]
    alive: set[tuple[str, str]] = set()
    while waiting:
        name = waiting.pop()
        if name in alive:
            continue
        alive.add(name)
        if name in by_name:
            inputs = by_name[name].record["inputs"].values()
            waiting += [(entry["stage"], entry["key"]) for entry in inputs]
    return alive


def _abandoned(store: Store) -> list[Path]:
    """Work directories that nobody holds and nobody has touched within the grace period."""
    return [
        path
        for path in _expired(store.root / ".work")
        if not is_locked(store.root / ".locks" / path.name)
    ]


def _expired(directory: Path) -> list[Path]:
    limit = time.time() - GRACE_SECONDS
    return [p for p in sorted(directory.glob("*")) if p.is_dir() and p.stat().st_mtime < limit]


def _old(path: Path, why: str) -> Swept:
    return Swept(path, size_of(path), f"{why}, older than {GRACE_SECONDS / 3600:.0f} hours")
