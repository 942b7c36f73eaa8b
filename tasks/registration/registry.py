"""What the registry says now of a version that was registered, as cheaply as it can be asked.

Our own SQLite store is read directly and read-only, in a millisecond and without mlflow (whose
import alone takes seconds); any other store is asked through MLflow's client.
"""

import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tasks.ingestion.redaction import redacted
from tasks.registration.address import address_of, database_path
from tasks.registration.quiet import prepare_environment

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)

T = TypeVar("T")

ARTIFACT_DIGEST = "artifact_digest"
"""Tag of a version: the digest of what was registered; it has one version at most."""
SEAL = "package_digest"
"""Tag of a version and of its logged model: the digest of the list of all files registered."""
CHAMPION: Final = "champion"
CHALLENGER: Final = "challenger"

VERSION_QUERY = """
SELECT tag.value FROM model_versions AS version LEFT JOIN model_version_tags AS tag
    ON tag.name = version.name AND tag.version = version.version AND tag.key = ?
WHERE version.name = ? AND version.version = ? AND version.current_stage <> 'Deleted_Internal'
"""
RUN_QUERY = "SELECT 1 FROM model_versions WHERE run_id = ? AND current_stage <> 'Deleted_Internal'"
TRAINING_QUERY = """
SELECT 1 FROM model_versions AS version JOIN model_version_tags AS tag
    ON tag.name = version.name AND tag.version = version.version AND tag.key = 'stage.training'
WHERE tag.value = ? AND version.current_stage <> 'Deleted_Internal'
"""
ALIAS_QUERY = "SELECT alias FROM registered_model_aliases WHERE name = ? AND version = ?"


@dataclass(frozen=True)
class Entry:
    """A version as the registry holds it."""

    artifact_digest: str | None
    aliases: tuple[str, ...]


def still_registered(
    registered: Mapping[str, Any], tracking_uri: str | None, root: Path, since_ns: int = 0
) -> str | None:
    """None while the registry holds the version and its files; else a sentence that says why not.

    `registered` is what `registered.json` holds, `since_ns` when it was written. Of files on a
    local store, all have to be there at their size; where the file system says that one was touched
    since then, the digest decides. Those of another store are not looked at here.
    """
    uri = address_of(tracking_uri, root)
    what = f"version {registered['version']} of {registered['name']!r}"
    try:
        entry = _entry(uri, registered)
    except Exception as error:  # a store that cannot be asked: building again says what is wrong
        why = f"{type(error).__name__}: {error}"
        return redacted(f"REGISTRY {uri} cannot be asked for {what}: {why}")
    if entry is None:
        return f"REGISTRY {redacted(uri)} no longer holds {what}"
    if entry.artifact_digest != registered[ARTIFACT_DIGEST]:
        return f"REGISTRY {redacted(uri)} holds another model as {what}"
    return _other_file(registered, since_ns)


def current_alias(
    registered: Mapping[str, Any], tracking_uri: str | None, root: Path
) -> str | None:
    """The alias that the version has now: `champion` before any other; None for none. Where the
    registry cannot be asked, the one that it was registered with."""

    def alias(uri: str) -> str | None:
        entry = _entry(uri, registered)
        aliases = entry.aliases if entry else ()
        return CHAMPION if CHAMPION in aliases else next(iter(aliases), None)

    return _told(address_of(tracking_uri, root), alias, registered["alias"])


def is_deleted(registered: Mapping[str, Any], tracking_uri: str | None, root: Path) -> bool:
    """Whether the registry is there, answers, and has no such version, nor one of another name from
    the same run (a model may be renamed). One that is not there or cannot be asked may come back
    with all of them."""

    def deleted(uri: str) -> bool:
        run_id = str(registered["run_id"])
        return _entry(uri, registered) is None and not _any_version(
            uri, "run_id", RUN_QUERY, run_id
        )

    return _told(address_of(tracking_uri, root), deleted, False)


def came_of(training: str, tracking_uri: str | None, root: Path) -> bool:
    """Whether a version stands that was made from the training of this key; so it may be for all
    that a registry says which is not there or cannot be asked."""

    def found(uri: str) -> bool:
        return _any_version(uri, "tags.`stage.training`", TRAINING_QUERY, training)

    return _told(address_of(tracking_uri, root), found, True)


def _told(uri: str, ask: Callable[[str], T], unknown: T) -> T:
    """What a store answers; `unknown` where it is not there or cannot be asked."""
    database = database_path(uri)
    if database is not None and not database.is_file():
        return unknown
    try:
        return ask(uri)
    except Exception as error:  # whatever its client raises: it is not known
        logger.warning("%s", redacted(f"MLflow's store {uri} cannot be asked: {error}"))
        return unknown


def _entry(uri: str, registered: Mapping[str, Any]) -> Entry | None:
    name, version = str(registered["name"]), int(registered["version"])
    database = database_path(uri)
    if database is None:
        return _entry_by_client(uri, name, version)
    if not database.is_file():
        return None
    with reading(database) as store:
        tags = store.execute(VERSION_QUERY, (ARTIFACT_DIGEST, name, version)).fetchone()
        if tags is None:
            return None
        aliases = [str(row[0]) for row in store.execute(ALIAS_QUERY, (name, version))]
    return Entry(tags[0], tuple(sorted(aliases)))


def reading(database: Path) -> "closing[sqlite3.Connection]":
    """SQLite's store, read-only."""
    return closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=30))


def _any_version(uri: str, field: str, query: str, value: str) -> bool:
    """Whether a version, of whatever name, stands whose field has the value; `query` finds it in
    SQLite's store."""
    database = database_path(uri)
    if database is None:
        return bool(_client(uri).search_model_versions(f"{field} = '{value}'"))
    with reading(database) as store:
        return store.execute(query, (value,)).fetchone() is not None


def _client(uri: str) -> "MlflowClient":
    prepare_environment()
    from mlflow import MlflowClient

    return MlflowClient(uri, uri)


def _entry_by_client(uri: str, name: str, version: int) -> Entry | None:
    client = _client(uri)
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_model_version(name, str(version))
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    return Entry(found.tags.get(ARTIFACT_DIGEST), tuple(sorted(found.aliases)))


def _other_file(registered: Mapping[str, Any], since_ns: int) -> str | None:
    """The first file of a model on a local store that is gone or has another size; or that some
    have other bytes."""
    location = str(registered["location"])
    if not location.startswith("/"):
        return None
    touched = False
    for name, size in registered["files"].items():
        path = Path(location) / name
        if not path.is_file():
            return f"REGISTRY {path} is missing"
        status = path.stat()
        if status.st_size != size:
            return f"REGISTRY {path} has {status.st_size} bytes, expected {size}"
        touched |= status.st_ctime_ns > since_ns
    if touched:
        from tasks.registration.proving.seal import changed

        if other := changed(Path(location), registered[SEAL]):
            return f"REGISTRY {location} holds other files than were registered, first {other}"
    return None
