"""One stage's work, decided before any of it is done, and the place where it is done.

step = Step(stage, version, shelf, params, inputs, build)      what is to be built, and its key
build(workspace)                                               writes it, resumably
"""

import os
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from stat import S_IMODE
from typing import Any

from tasks.artifact.durable import Lasts, read_json, statuses_below, writing
from tasks.artifact.durable import write_json as write_json_durably
from tasks.artifact.fsyncs import run_in_order
from tasks.artifact.key import KEY_LENGTH, Params, canonical, digest_json
from tasks.artifact.libraries import library_version
from tasks.artifact.record import LOGS, Artifact

SCRATCH = "scratch"
UNITS = "units"
FAILED = "failed.json"
"""Beside the files of an unfinished build: what its last attempt failed for."""
MODE = 0o644
"""Of every file of an artifact."""
Statuses = Mapping[str, os.stat_result]


@dataclass(frozen=True)
class Workspace:
    """The directory in which a build writes; it survives a kill, and becomes the artifact."""

    path: Path
    lock_fd: int
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the build puts into the record: `ledger` for stages of rows, and any other facts."""
    ingredients: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Those of the step that is built here."""
    shelf: Path | None = None
    """The directory of the stage's artifacts; None: there are none."""

    @property
    def scratch(self) -> Path:
        """Directory for checkpoints and intermediate files: survives a kill, deleted on commit."""
        return self._directory(SCRATCH)

    @property
    def logs(self) -> Path:
        """Directory for what differs between equal runs: in the artifact, but not in its digest."""
        return self._directory(LOGS)

    @contextmanager
    def writing(self, name: str, lasts: Lasts = "now") -> Generator[Path, None, None]:
        """A temporary path, renamed to `name` on success and fsynced as `lasts` says.

        `by_mark` is for files of a unit, `later` for what every attempt writes anew.
        """
        with writing(self.path / name, lasts) as temporary:
            yield temporary

    def write_json(self, name: str, value: Any) -> None:
        """Writes one JSON file of the payload, durably."""
        write_json_durably(self.path / name, value)

    def finished(self, unit: str) -> dict[str, Any] | None:
        """The summary of a unit that an earlier attempt finished, or None."""
        return read_json(self.path / UNITS / f"{unit}.json")

    def finish(self, unit: str, summary: Mapping[str, Any]) -> None:
        """Marks a unit as done, after its files have been fsynced.

        The mark survives a kill. After a loss of power it is either complete or missing, and units
        of the last seconds before may have to be done again.
        """
        run_in_order(self._mark, unit, summary)

    def remove_leftovers(self) -> Statuses:
        """Deletes what does not belong to the artifact; the `stat` of each file that does."""
        for name in (UNITS, SCRATCH):  # marks first: no unit counts as done without its files
            with suppress(FileNotFoundError):
                shutil.rmtree(self.path / name)
        statuses = statuses_below(self.path)
        wrong = [name for name, status in statuses.items() if S_IMODE(status.st_mode) != MODE]
        for name in wrong:
            with suppress(PermissionError):  # begun by another user, whose files stay as they are
                (self.path / name).chmod(MODE)
        return statuses_below(self.path) if wrong else statuses

    def _mark(self, unit: str, summary: Mapping[str, Any]) -> None:
        write_json_durably(self.path / UNITS / f"{unit}.json", summary, "later")

    def _directory(self, name: str) -> Path:
        directory = self.path / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory


@dataclass(frozen=True)
class Step:
    """What is to be built: all that its result depends on, and the function that builds it."""

    stage: str
    version: int
    shelf: str
    params: Params | Mapping[str, Any]
    inputs: Mapping[str, Artifact]
    """Artifacts that the build reads, in the key by their content digests."""
    build: Callable[[Workspace], None]
    libraries: tuple[str, ...] = ()
    """Distributions whose behaviour is baked in: their versions are in the key."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Digests of outside bytes that are baked in: tokenizer, template, weights, sources."""
    uses: Mapping[str, Artifact] = field(default_factory=dict[str, Artifact])
    """Artifacts that are read in part: not in the key as a whole, but kept by the collection."""
    still_valid: Callable[[Artifact], str | None] | None = None
    """Asked about an intact artifact; a sentence means that it no longer serves, and why."""
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of params that do not stand in the stage's own section of the params file: where they do."""

    @cached_property
    def ingredients(self) -> dict[str, Any]:
        """All that the key is made of, as plain JSON data."""
        return {
            "stage": self.stage,
            "version": self.version,
            "params": canonical(self.params, self.stage),
            "inputs": {name: artifact.digest for name, artifact in self.inputs.items()},
            "libraries": {n: library_version(n) for n in self.libraries},
            "files": dict(self.files),
        }

    @cached_property
    def key(self) -> str:
        """The identity of the work, as hex."""
        return digest_json(self.ingredients)[:KEY_LENGTH]

    @property
    def name(self) -> str:
        """`<stage>-<key>`, unique in a store."""
        return f"{self.stage}-{self.key}"
