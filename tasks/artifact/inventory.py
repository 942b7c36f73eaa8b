"""All artifacts of a store: which there are, and whether their files are as recorded."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.artifact.key import KEY_LENGTH
from tasks.artifact.record import RECORD, Artifact, closed, damage, read_artifact
from tasks.artifact.refs import Name
from tasks.artifact.store import Store
from tasks.errors import ArtifactError

KEY = re.compile(f"[0-9a-f]{{{KEY_LENGTH}}}")


def committed(store: Store) -> dict[Path, Artifact | str]:
    """Every artifact by its directory, or the sentence on why its record cannot be read.

    Raises:
        ArtifactError: this user may not read one of them.
    """
    read = {path: read_artifact(path) for path in _directories(store)}
    return {path: artifact for path, artifact in read.items() if artifact is not None}


def by_name(artifacts: Mapping[Path, Artifact | str]) -> dict[Name, Artifact]:
    """Those whose records can be read, by stage and key."""
    return {(a.stage, a.key): a for a in artifacts.values() if isinstance(a, Artifact)}


@dataclass(frozen=True)
class Verdict:
    """What was found of one artifact: nothing (`problem` is None), that it is damaged, or that this
    user may not read it (`closed`)."""

    path: Path
    problem: str | None
    closed: bool = False
    artifact: Artifact | None = None


def verify(store: Store, *, deep: bool = False) -> list[Verdict]:
    """A verdict on every artifact; `deep` reads every file."""
    return [_verdict(path, deep) for path in _directories(store)]


def lock_of(store: Store, place: Path, artifact: Artifact | str | None) -> Path | None:
    """The lock of an artifact's key.

    Where the record cannot be read, the stage is unknown; the lock file of the same key names it. A
    directory without a lock file is not one of ours: None.
    """
    locks = store.root / ".locks"
    if isinstance(artifact, Artifact):
        return locks / artifact.name
    return next(locks.glob(f"*-{place.name}"), None)


def _directories(store: Store) -> list[Path]:
    """The directories that are artifacts, by a record in them or by their name."""
    found = {path.parent for path in store.root.glob(f"[!.]*/*/{RECORD}")}
    found |= {p for p in store.root.glob("[!.]*/*") if KEY.fullmatch(p.name) and p.is_dir()}
    return sorted(found)


def _verdict(directory: Path, deep: bool) -> Verdict:
    try:
        artifact = read_artifact(directory)
        if isinstance(artifact, Artifact):
            return Verdict(directory, damage(artifact, deep=deep), artifact=artifact)
        return Verdict(directory, artifact)
    except PermissionError:
        return Verdict(directory, str(closed(directory)), closed=True)
    except ArtifactError as error:
        return Verdict(directory, str(error), closed=True)
