"""A committed artifact: a directory, and the record that says what it is and how it came about.

    data/<shelf>/<key>/record.json    its existence here means: complete
                       <payload>      in the content digest
                       logs/          kept, but outside the digest: wall-clock figures, output

The record holds its own checksum, so a flipped bit in a ledger or a metric does not pass.
No promise covers logs/, and nobody verifies it: no result comes from there. A unit's note in it has
a checksum of its own (`notes`), and where a stamp does not hold, the file is hashed (`stamps`).
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.artifact.digests import digests_of, file_digest, hash_file, merkle
from tasks.artifact.durable import read_json
from tasks.artifact.key import digest_json
from tasks.artifact.stamps import stamp_of, untouched_stamps
from tasks.artifact.threads import threaded_map
from tasks.errors import ArtifactError

RECORD = "record.json"
LOGS = "logs"


@dataclass(frozen=True)
class Artifact:
    """One stage's output, complete and verified.

    `cached` says whether it stood there already, `reason` why it was believed or built, and
    `seconds` how long this run spent on it.
    """

    stage: str
    key: str
    path: Path
    digest: str
    record: Mapping[str, Any]
    cached: bool = True
    reason: str = ""
    seconds: float = 0.0

    @property
    def report(self) -> dict[str, Any]:
        """The facts that the build left: ledger, numbers."""
        return self.record["report"]

    @property
    def name(self) -> str:
        """`<stage>-<key>`, unique in a store."""
        return f"{self.stage}-{self.key}"

    def with_outcome(self, *, cached: bool, reason: str, seconds: float) -> "Artifact":
        """The same artifact, with how this run came by it."""
        return replace(self, cached=cached, reason=reason, seconds=seconds)


def payload_digests(
    directory: Path, statuses: Mapping[str, os.stat_result]
) -> dict[str, dict[str, Any]]:
    """`{posix path: {bytes, sha256}}` of the files that the content digest covers, of those that
    `statuses_below` told."""
    covered = {
        name: directory / name
        for name in statuses
        if name != RECORD and not name.startswith(f"{LOGS}/")
    }
    digests = digests_of({path: stamp_of(statuses[name]) for name, path in covered.items()})
    return {
        name: {"bytes": statuses[name].st_size, "sha256": digests[path]}
        for name, path in covered.items()
    }


def content_digest(files: Mapping[str, Mapping[str, Any]]) -> str:
    """The digest that goes into the keys of later stages: of file names and contents alone."""
    return merkle({name: str(entry["sha256"]) for name, entry in files.items()})


def part_digest(artifact: Artifact, part: str) -> str:
    """The digest of one file, or of all below one folder, of a committed artifact."""
    files: Mapping[str, Mapping[str, Any]] = artifact.record.get("files", {})
    return content_digest(
        {name: entry for name, entry in files.items() if f"{name}/".startswith(f"{part}/")}
    )


def input_digests(artifact: Artifact, folder: str) -> dict[str, str]:
    """`{stem: SHA-256}` of the shards in one folder of a committed artifact."""
    files: Mapping[str, Mapping[str, Any]] = artifact.record.get("files", {})
    return {
        Path(name).stem: str(entry["sha256"])
        for name, entry in files.items()
        if Path(name).parent.as_posix() == folder
    }


def checksum(record: Mapping[str, Any]) -> str:
    """Digest of a record without its own checksum."""
    return digest_json({k: v for k, v in record.items() if k != "checksum"})


def read_artifact(directory: Path) -> Artifact | str | None:
    """The artifact whose record stands in `directory`, a sentence on what is wrong, or None.

    Looks at the record alone; `damage` looks at the files.

    Raises:
        ArtifactError: this user may not read it.
    """
    if not directory.exists():
        return None
    try:
        record = read_json(directory / RECORD)
    except PermissionError as error:
        raise closed(directory) from error
    if not isinstance(record, dict):
        return f"DAMAGED {directory}: {RECORD} is missing or no JSON"
    if record.get("checksum") != checksum(record):
        return f"DAMAGED {directory}: {RECORD} does not match its checksum"
    return Artifact(record["stage"], record["key"], directory, record["digest"], record)


def closed(directory: Path) -> ArtifactError:
    """The error for an artifact that this user may not read."""
    return ArtifactError(
        f"user id {os.geteuid()} may not read {directory}; have its owner open it (users of one "
        "store share a group, with umask 002)"
    )


def damage(artifact: Artifact, *, deep: bool = False) -> str | None:
    """The first way in which the files differ from the record, or None.

    A file is held against its SHA-256, unless the file system says that nobody has written to it
    since; `deep` reads every file.
    """
    digest_of = hash_file if deep else file_digest
    files: Mapping[str, Mapping[str, Any]] = artifact.record["files"]
    untouched = {} if deep else untouched_stamps(artifact.path)

    def fault(name: str) -> str | None:
        path, entry = artifact.path / name, files[name]
        with suppress(FileNotFoundError, NotADirectoryError):  # it may be deleted at any moment
            size = path.stat().st_size
            if size != entry["bytes"]:
                return f"DAMAGED {name}: {size} bytes, expected {entry['bytes']}"
            if digest_of(path) != entry["sha256"]:
                return f"DAMAGED {name}: its bytes differ from the recorded SHA-256"
            return None
        return f"DAMAGED {name}: missing, expected {entry['bytes']} bytes"

    doubted = [name for name in files if name not in untouched]
    return next(filter(None, threaded_map(fault, doubted)), None)
