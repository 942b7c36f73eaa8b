"""A cache of single units: a shard that an earlier artifact holds is taken from there unchanged.

    <artifact>/logs/units/<unit key>    {unit, files, summary}, as `notes` writes it

A unit's key is a hash of all that its bytes depend on: the step's version, params, libraries and
files, and the digest of its own input shard instead of the whole input's. So appended rows cost no
more than their own shards. Files are hard-linked once their stamps, or else their bytes, have been
compared with the record of the artifact that holds them. The garbage collection may delete that
artifact at any time: a file that is damaged, changed or gone is built again.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks.artifact.digests import file_digest, remember
from tasks.artifact.durable import TEMPORARY_SUFFIX, fsync
from tasks.artifact.key import KEY_LENGTH, digest_json
from tasks.artifact.notes import read_note, write_note
from tasks.artifact.record import LOGS, Artifact, read_artifact
from tasks.artifact.stamps import Stamp, noted_stamps, same_but_linked, stamp
from tasks.artifact.step import Workspace
from tasks.artifact.threads import threaded_map

UNITS = "units"


@dataclass(frozen=True)
class Kept:
    """A unit in a committed artifact, with what was noted about it."""

    artifact: Artifact
    note: str
    """Its path."""
    unit: str
    files: Sequence[str]
    summary: dict[str, Any]
    stamps: Mapping[str, Stamp]
    """Of the artifact's files."""


@dataclass(frozen=True)
class Memo:
    """The units that earlier artifacts of a stage hold.

    Three parts go into a unit's key: `digests`, its input's digest by unit; `step`, the ingredients
    of the step that its bytes depend on (None: all but the inputs); `also`, whatever else they
    depend on.
    """

    workspace: Workspace
    digests: Mapping[str, str]
    also: Any = None
    step: Mapping[str, Any] | None = None
    # Created here rather than on first use, because several threads use them.
    _artifacts: dict[Path, tuple[Artifact, Mapping[str, Stamp]] | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _touched: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _keys: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def key(self, unit: str) -> str:
        """The identity of one unit's work, as hex."""
        if unit not in self._keys:
            whole = [self._step_digest, self.digests[unit]]
            self._keys[unit] = digest_json(whole)[:KEY_LENGTH]
        return self._keys[unit]

    def take(self, unit: str, *, read: bool = True) -> dict[str, Any] | None:
        """Links a unit's files into this workspace and notes them for later runs; the unit's
        summary, or None where no earlier artifact holds it. `read`: see `link`."""
        for kept in self.known(unit):
            places = [_renamed(name, kept.unit, unit) for name in kept.files]
            files = zip(kept.files, places, strict=True)
            if all(self.link(kept, *both, read=read) for both in files):
                self._keep_as_noted(unit, kept, places)
                return kept.summary
            for place in places:
                (self.workspace.path / place).unlink(missing_ok=True)
        return None

    def take_all(self, units: Sequence[str]) -> dict[str, dict[str, Any] | None]:
        """`take` for every unit; those whose files have to be read are taken in threads."""
        if not self.workspace.ingredients or not self._known:
            return dict.fromkeys(units)
        taken = {unit: self.take(unit, read=False) for unit in units}
        left = [unit for unit, found in taken.items() if found is None]
        return taken | dict(zip(left, threaded_map(self.take, left), strict=True))

    def fsync_links(self) -> None:
        """Fsyncs the directories of the links that were made. The commit does so anyway; to be
        called before a unit is marked as done earlier than that."""
        while self._touched:  # directory by directory
            fsync(Path(self._touched.pop()))

    def known(self, unit: str) -> Iterator[Kept]:
        """The entries for the unit's key in artifacts whose record is sound; their files have not
        been checked."""
        if unit not in self.digests or not self.workspace.ingredients:
            return
        for directory in self._known.get(self.key(unit), ()):
            note = self._note(directory, unit)
            entry = read_note(note)
            if entry is None:
                continue
            found = self._artifact(directory)
            if found is not None:
                artifact, stamps = found
                what = entry["unit"], entry["files"], entry["summary"]
                yield Kept(artifact, note, *what, stamps)

    def keep(self, unit: str, files: Sequence[str], summary: Mapping[str, Any]) -> None:
        """Notes for later runs which files of the workspace belong to this unit."""
        if unit not in self.digests or not self.workspace.ingredients:
            return
        entry = {"unit": unit, "files": sorted(files), "summary": dict(summary)}
        # Not fsynced here: the commit does that, and the note has a checksum. Units with equal
        # bytes share a key and so a note, which several threads may write at the same time.
        note = Path(self._note(self.workspace.path, unit))
        mine = note.with_name(f"{note.stem}-{unit}{TEMPORARY_SUFFIX}")
        write_note(mine, entry)
        mine.replace(note)

    def link(self, kept: Kept, name: str, place: str, *, read: bool = True) -> bool:
        """Links a file of the kept unit to `place`; whether it is as it was committed.

        A file whose stamp has changed is hashed and compared with the record, or, without `read`,
        refused. The link is not fsynced here (see `fsync_links`).
        """
        new = f"{self.workspace.path}/{place}"
        recorded = kept.artifact.record["files"].get(name, {}).get("sha256")
        with suppress(OSError):
            old = f"{kept.artifact.path}/{name}"
            before = stamp(old)
            untouched = before == kept.stamps.get(name)
            if not (untouched or read):
                return False
            self._link(old, new)
            now = stamp(new)
            untouched = untouched and same_but_linked(before, now)
            if untouched or (read and file_digest(Path(new)) == recorded):
                if not untouched:  # perhaps copied here by somebody, and never fsynced
                    fsync(Path(new))
                remember(new, recorded, now)
                return True
        Path(new).unlink(missing_ok=True)
        return False

    def _link(self, old: str, new: str) -> None:
        """Hard-links a file to a new name, replacing what has that name."""
        directory = new.rpartition("/")[0]
        if directory not in self._touched:
            Path(directory).mkdir(parents=True, exist_ok=True)
            self._touched.add(directory)
        try:
            os.link(old, new)
        except FileExistsError:
            Path(new).unlink()
            os.link(old, new)

    def _keep_as_noted(self, unit: str, kept: Kept, places: Sequence[str]) -> None:
        if kept.unit == unit:
            with suppress(OSError):  # the older artifact has been deleted meanwhile
                self._link(kept.note, self._note(self.workspace.path, unit))
                return
        self.keep(unit, places, kept.summary)

    def _note(self, directory: Path, unit: str) -> str:
        return f"{directory}/{LOGS}/{UNITS}/{self.key(unit)}"

    def _artifact(self, directory: Path) -> tuple[Artifact, Mapping[str, Stamp]] | None:
        if directory not in self._artifacts:
            found = read_artifact(directory)
            sound = isinstance(found, Artifact)
            self._artifacts[directory] = (found, noted_stamps(directory)) if sound else None
        return self._artifacts[directory]

    @cached_property
    def _step_digest(self) -> str:
        """Digest of all that a unit's bytes depend on, except its own input."""
        whole = {k: v for k, v in self.workspace.ingredients.items() if k != "inputs"}
        return digest_json({"step": self.step or whole, "also": self.also})

    @cached_property
    def _known(self) -> dict[str, list[Path]]:
        """Unit key -> the artifacts that have a note of it, the newest first: its stamps are the
        likeliest to hold."""
        dated: list[tuple[int, Path, list[str]]] = []
        shelf = self.workspace.shelf
        for directory in shelf.glob("*") if shelf else ():
            notes = directory / LOGS / UNITS
            with suppress(FileNotFoundError, NotADirectoryError):  # it may be collected just now
                keys = [note.name for note in notes.iterdir()]
                dated.append((notes.stat().st_mtime_ns, directory, keys))
        found: dict[str, list[Path]] = {}
        for _, directory, keys in sorted(dated, reverse=True):
            for key in keys:
                found.setdefault(key, []).append(directory)
        return found


def _renamed(name: str, old: str, new: str) -> str:
    """A file's name with the old unit's name replaced by the new one's."""
    if old == new:
        return name
    path = Path(name)
    return path.with_name(path.name.replace(old, new, 1)).as_posix()
