"""Shards that an earlier artifact holds already are taken from there, byte for byte.

    <artifact>/logs/units/<unit key>    {unit, files, summary}, as `notes` writes it

A unit's key is made of all that its bytes depend on: the step's version, params, libraries and
files, and the digest of its own input shard in place of the whole input's. So rows that are
appended cost their own shards only. Files come by hard link, after their stamps or else their bytes
were held against the record that they were committed with; the collection may take the older
artifact at any time. What is damaged, changed or gone is built anew.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks.artifact.beside import side_by_side
from tasks.artifact.digests import file_digest, remember
from tasks.artifact.durable import TEMPORARY_SUFFIX, fsync
from tasks.artifact.key import KEY_LENGTH, digest_json
from tasks.artifact.notes import read_note, write_note
from tasks.artifact.record import LOGS, Artifact, read_artifact
from tasks.artifact.stamps import Stamp, noted_stamps, same_but_linked, stamp
from tasks.artifact.step import Workspace

UNITS = "units"


@dataclass(frozen=True)
class Kept:
    """A unit that a committed artifact holds, and what was noted of it."""

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
    """What earlier artifacts of a stage hold of its units.

    `digests` gives each unit's input digest; `also` what else its bytes depend on. `step`: what of
    the step they depend on; None: all of it but the inputs.
    """

    workspace: Workspace
    digests: Mapping[str, str]
    also: Any = None
    step: Mapping[str, Any] | None = None
    # Made with the memo, not when first asked for: several threads ask.
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
        """The summary of a unit whose files an earlier artifact holds: they now stand here, too,
        and are noted for later ones. `read`: see `link`."""
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
        """`take` of every unit. Where files have to be read, side by side."""
        if not self.workspace.ingredients or not self._known:
            return dict.fromkeys(units)
        taken = {unit: self.take(unit, read=False) for unit in units}
        left = [unit for unit, found in taken.items() if found is None]
        return taken | dict(zip(left, side_by_side(self.take, left), strict=True))

    def last(self) -> None:
        """Makes what was taken last before the commit does: whoever marks a unit has to ask."""
        while self._touched:  # directory by directory
            fsync(Path(self._touched.pop()))

    def known(self, unit: str) -> Iterator[Kept]:
        """What sound artifacts hold under the unit's key; their files are not looked at yet."""
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
        """Notes, beside the artifact to be, which files of its payload this unit consists of."""
        if unit not in self.digests or not self.workspace.ingredients:
            return
        entry = {"unit": unit, "files": sorted(files), "summary": dict(summary)}
        # It lasts from the commit on, as all of the artifact does; and it has a checksum. Units of
        # equal bytes have one note, which several may write at once.
        note = Path(self._note(self.workspace.path, unit))
        mine = note.with_name(f"{note.stem}-{unit}{TEMPORARY_SUFFIX}")
        write_note(mine, entry)
        mine.replace(note)

    def link(self, kept: Kept, name: str, place: str, *, read: bool = True) -> bool:
        """Whether the kept unit's file is as it was committed, and now stands at `place`, too.

        One that its stamp does not vouch for has to be read, or is not believed. It lasts from the
        commit on (`last`).
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
                if not untouched:  # it may have come here by itself, and not last yet
                    fsync(Path(new))
                remember(new, recorded, now)
                return True
        Path(new).unlink(missing_ok=True)
        return False

    def _link(self, old: str, new: str) -> None:
        """Gives a file another name, which another one may have had."""
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
            with suppress(OSError):  # the other one is gone
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
        """Of all that a unit's bytes depend on beside its own input."""
        whole = {k: v for k, v in self.workspace.ingredients.items() if k != "inputs"}
        return digest_json({"step": self.step or whole, "also": self.also})

    @cached_property
    def _known(self) -> dict[str, list[Path]]:
        """The stage's artifacts that have a note of a key; first the newest, whose stamps hold."""
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
    """A file's name with that of another unit in it."""
    if old == new:
        return name
    path = Path(name)
    return path.with_name(path.name.replace(old, new, 1)).as_posix()
