"""The command `gc`: collects what no recent run, no pin and no registered version refers to.

A version keeps its artifacts until it is deleted in its registry. If the registry cannot be
reached, the version keeps them. The same holds for what a killed run was registering.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.artifact import Store
from tasks.artifact.collection import GRACE_SECONDS, Swept, collect
from tasks.artifact.inventory import by_name, committed
from tasks.artifact.refs import REGISTERING, VERSION, facts, kept_by, refs

STAGE = "registration"


def collect_garbage(root: Path, *, keep_runs: int, dry_run: bool) -> list[Swept]:
    """Collects below this root; returns what was collected, or would be.

    Raises:
        ArtifactError: a run is going, the store cannot be written to, or a ref is damaged.
    """
    store = Store(root / "data")
    deleted = [*_deleted(store, root)]
    return collect(store, keep_runs=keep_runs, let_go=deleted, dry_run=dry_run)


def print_swept(swept: Sequence[Swept], dry_run: bool) -> None:
    """Prints what was collected, or would be, with the total."""
    for entry in swept:
        print(f"{entry.bytes:>14,} bytes  {entry.path}  ({entry.why})")
    trashed = [entry.bytes for entry in swept if entry.trashed]
    gone = [entry.bytes for entry in swept if not entry.trashed]
    free, move = ("would free", "would move") if dry_run else ("freed", "moved")
    print(f"{free} {sum(gone):,} bytes in {len(gone)} places")
    if trashed:
        print(
            f"{move} {sum(trashed):,} bytes in {len(trashed)} places to data/.trash; a gc in "
            f"{GRACE_SECONDS / 3600:.0f} hours or later frees them"
        )


def _deleted(store: Store, root: Path) -> Iterator[Path]:
    """The refs of versions that were deleted, or that were never made."""
    from tasks.registration import came_of, is_deleted

    for ref in refs(store, REGISTERING):
        known = facts(ref) or {}  # none in a ref that was written by hand
        if "training" in known and not came_of(known["training"], known["tracking_uri"], root):
            yield ref
    standing = by_name(committed(store))
    for ref in refs(store, VERSION):
        registered = next((standing[n] for n in kept_by(ref) & {*standing} if n[0] == STAGE), None)
        if registered:  # its record says where
            address: str | None = registered.record["ingredients"]["params"]["tracking_uri"]
            if is_deleted(facts(ref), address, root):
                yield ref
