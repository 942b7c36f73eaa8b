"""All artifacts of a store: which there are, and whether their files are as recorded."""

import re
from collections.abc import Mapping
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


def verify(store: Store, *, deep: bool = False) -> dict[str, str | None]:
    """`{artifact: what is damaged, or None}` for every artifact; `deep` reads every file."""
    return {str(path): _damage(path, deep) for path in _directories(store)}


def _directories(store: Store) -> list[Path]:
    """The directories that are artifacts, by a record in them or by their name."""
    found = {path.parent for path in store.root.glob(f"[!.]*/*/{RECORD}")}
    found |= {p for p in store.root.glob("[!.]*/*") if KEY.fullmatch(p.name) and p.is_dir()}
    return sorted(found)


def _damage(directory: Path, deep: bool) -> str | None:
    try:
        artifact = read_artifact(directory)
        return damage(artifact, deep=deep) if isinstance(artifact, Artifact) else artifact
    except PermissionError:
        return str(closed(directory))
    except ArtifactError as error:
        return str(error)
