"""Repair: what is damaged goes to the trash, and the next run builds it again.

    data/<shelf>/<key>/  ->  data/.trash/<shelf>-<key>-<time>/     deleted by a gc, a day later

A run does the same with damage that it finds on its way. It does not read what nobody has written
to, so a bit that flipped on the disk is found by a deep verification alone, and moved here.
"""

from pathlib import Path

from tasks.artifact.collection import not_in_use
from tasks.artifact.inventory import Verdict, lock_of, verify
from tasks.artifact.lock import is_locked, locked
from tasks.artifact.store import Store


def repair(store: Store, *, deep: bool = False) -> tuple[list[Verdict], set[Path]]:
    """Verdicts on every artifact, and which of the damaged ones are in the trash now.

    What this user may not read, what somebody is building, and a directory that is none of ours
    stay where they are.

    Raises:
        ArtifactError: a run is going, or the store cannot be written to.
    """
    if not store.root.exists():
        return [], set()
    moved: set[Path] = set()
    with not_in_use(store, "verify --repair"):
        verdicts = verify(store, deep=deep)
        for verdict in [v for v in verdicts if v.problem and not v.closed]:
            lock = lock_of(store, verdict.path, verdict.artifact)
            if lock and not is_locked(lock):
                with locked(lock, "verify --repair"):
                    store.discard(verdict.path)
                moved.add(verdict.path)
    return verdicts, moved
