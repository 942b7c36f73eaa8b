"""Shards that an earlier artifact holds already are taken from there, byte for byte.

    <artifact>/logs/units/<unit key>.json    {unit, files, summary, checksum}

A unit's key is made of all that its bytes depend on: the step's version, params, libraries and
files, and the digest of its own input shard in place of the whole input's. So rows that are
appended cost their own shards only. Files come by hard link, after their bytes were held against
the record that they were committed with; the collection may take the older artifact at any time.
What is damaged, changed or gone is built anew.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks.artifact.digests import file_digest
from tasks.artifact.durable import fsync, read_json, write_json
from tasks.artifact.key import KEY_LENGTH, digest_json
from tasks.artifact.record import Artifact, read_artifact
from tasks.artifact.step import Workspace

UNITS = "units"


@dataclass(frozen=True)
class Memo:
    """What earlier artifacts of a stage hold of its units.

    `digests` gives each unit's input digest; `also` what else its bytes depend on.
    """

    workspace: Workspace
    digests: Mapping[str, str]
    also: Any = None

    def key(self, unit: str) -> str:
        """The identity of one unit's work, as hex."""
        whole = {k: v for k, v in self.workspace.ingredients.items() if k != "inputs"}
        made_of = {"step": whole, "input": self.digests[unit], "also": self.also}
        return digest_json(made_of)[:KEY_LENGTH]

    def take(self, unit: str) -> dict[str, Any] | None:
        """The summary of a unit whose files an earlier artifact holds: they now stand here, too."""
        if unit not in self.digests or not self.workspace.ingredients:
            return None
        for path in self._known.get(self.key(unit), ()):
            entry = read_json(path)
            if isinstance(entry, dict) and entry.get("checksum") == _checksum(entry):
                artifact = read_artifact(path.parents[2])
                if isinstance(artifact, Artifact) and self._linked(artifact, entry, unit):
                    return entry["summary"]
        return None

    def keep(self, unit: str, files: Sequence[str], summary: Mapping[str, Any]) -> None:
        """Notes, beside the artifact to be, which files of its payload this unit consists of."""
        if unit not in self.digests or not self.workspace.ingredients:
            return
        entry = {"unit": unit, "files": sorted(files), "summary": dict(summary)}
        path = self.workspace.logs / UNITS / f"{self.key(unit)}.json"
        write_json(path, entry | {"checksum": _checksum(entry)})

    def _linked(self, artifact: Artifact, entry: Mapping[str, Any], unit: str) -> bool:
        placed: list[Path] = []
        with suppress(OSError):
            for name in entry["files"]:
                old = artifact.path / name
                new = self.workspace.path / name
                new = new.with_name(new.name.replace(entry["unit"], unit, 1))
                new.parent.mkdir(parents=True, exist_ok=True)
                new.unlink(missing_ok=True)
                os.link(old, new)
                placed.append(new)
                if file_digest(new) != artifact.record["files"].get(name, {}).get("sha256"):
                    break
            else:
                for directory in {path.parent for path in placed}:
                    fsync(directory)
                return True
        for path in placed:
            path.unlink(missing_ok=True)
        return False

    @cached_property
    def _known(self) -> dict[str, list[Path]]:
        """Units of all artifacts that stand, by key."""
        found: dict[str, list[Path]] = {}
        for path in self.workspace.root.glob(f"[!.]*/*/logs/{UNITS}/*.json"):
            found.setdefault(path.stem, []).append(path)
        return found


def input_digests(artifact: Artifact, folder: str) -> dict[str, str]:
    """`{stem: SHA-256}` of the shards in one folder of a committed artifact."""
    files: Mapping[str, Mapping[str, Any]] = artifact.record.get("files", {})
    return {
        Path(name).stem: str(entry["sha256"])
        for name, entry in files.items()
        if Path(name).parent.as_posix() == folder
    }


def _checksum(entry: Mapping[str, Any]) -> str:
    return digest_json({k: v for k, v in entry.items() if k != "checksum"})
