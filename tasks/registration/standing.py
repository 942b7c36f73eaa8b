"""Whether the versions that were registered from a root still stand, with the files they had."""

from collections.abc import Iterable
from pathlib import Path

from tasks.artifact import Artifact
from tasks.registration.registry import is_deleted, still_registered
from tasks.registration.task import SHELF, receipt, since


def versions_standing(
    artifacts: Iterable[Artifact], root: Path, *, deep: bool = False
) -> dict[str, str | None]:
    """`{models:/name/version: what is wrong, or None}` of the registrations among the artifacts.

    A version that was deleted in its registry is left out. `deep` reads every file of those on this
    machine, even if nobody has written to it since.
    """
    found: dict[str, str | None] = {}
    for artifact in artifacts:
        if artifact.path.parent.name != SHELF:
            continue
        registered = receipt(artifact)
        address: str | None = artifact.record["ingredients"]["params"]["tracking_uri"]
        fault = still_registered(registered, address, root, 0 if deep else since(artifact))
        if fault and is_deleted(registered, address, root):
            continue
        uri = f"models:/{registered['name']}/{registered['version']}"
        found[uri] = found.get(uri) or fault
    return found
