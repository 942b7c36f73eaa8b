"""The store: finds an artifact that can be believed, or builds it once and commits it whole.

    data/<shelf>/<key>/          committed
    data/.work/<stage>-<key>/    being built; resumed after a kill
    data/.locks/<stage>-<key>    one builder at a time
    data/.trash/                 damaged or collected, renamed first, deleted later

An artifact becomes visible by the rename, and complete. A damaged one is moved to the trash and
built again, and the reason is told; nothing stale or broken is ever handed on.
"""

import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.artifact.durable import (
    TEMPORARY_SUFFIX,
    explained_disk_errors,
    folders_of,
    fsync,
    fsync_bytes,
    write_json,
)
from tasks.artifact.explain import causes
from tasks.artifact.libraries import begin_git_commit, git_commit, library_version
from tasks.artifact.lock import locked
from tasks.artifact.memory import give_memory_back, share_heaps
from tasks.artifact.record import (
    RECORD,
    Artifact,
    checksum,
    content_digest,
    damage,
    payload_digests,
    read_artifact,
)
from tasks.artifact.refs import used_by
from tasks.artifact.stamps import STAMPS, note_stamps, settled_stamps
from tasks.artifact.step import FAILED, Statuses, Step, Workspace
from tasks.errors import Interrupted, PipelineError

logger = logging.getLogger(__name__)

RECORDED_LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "pyarrow", "numpy")


@dataclass(frozen=True)
class Finding:
    """The store's answer for a step: its artifact, or why it has to be built."""

    artifact: Artifact | None
    causes: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The causes in one line."""
        return "; ".join(self.causes)


@dataclass(frozen=True)
class Store:
    """All artifacts below one directory (`data/`), on one file system."""

    root: Path
    params_file: str | None = None
    """The absolute path of the params file that it is asked for: refs tell it, and what its runs
    have used explains why something is built."""

    def place(self, step: Step) -> Path:
        """Where the step's artifact stands once it is committed."""
        return self.root / step.shelf / step.key

    def work(self, step: Step) -> Path:
        """Where the step's artifact is built."""
        return self.root / ".work" / step.name

    def lock(self, step: Step) -> Path:
        """The lock of the step's key."""
        return self.root / ".locks" / step.name

    def look(self, step: Step) -> Finding:
        """The step's artifact if it is intact, or why it has to be built; changes nothing."""
        found = read_artifact(self.place(step))
        if found is None:
            mine = used_by(self, self.params_file) if self.params_file else ()
            return Finding(None, causes(step, self.root, mine))
        if isinstance(found, str):
            return Finding(None, (found,))
        problem = damage(found) or (step.still_valid(found) if step.still_valid else None)
        if problem:
            return Finding(None, (problem,))
        count = len(found.record["files"])
        files = f"{count} file{'' if count == 1 else 's'}"
        told = f"cached: {files} as recorded, built {found.record['created']}"
        return Finding(found, (told,))

    def obtain(self, step: Step, *, force: bool = False) -> Artifact:
        """The step's artifact: found, waited for, or built.

        Raises:
            PipelineError: whatever the build raises on purpose; finished units are kept.
        """
        start = time.monotonic()
        # If there is none, the reason is looked for below, under the lock.
        finding = self.look(step) if self.place(step).exists() else Finding(None, ())
        if finding.artifact and not force:
            return self._reused(finding, start)
        with (
            explained_disk_errors(self.root),
            locked(self.lock(step), step.name) as lock_fd,
        ):
            again = self.look(step)
            if again.artifact and not (force and finding.artifact):
                return self._reused(again, start)
            reason = f"FORCED {step.stage}" if again.artifact else again.reason
            self.discard(self.place(step))
            logger.info("%s: building (%s)", step.name, reason)
            artifact = self._build(step, lock_fd, reason)
            return artifact.with_outcome(
                cached=False, reason=reason, seconds=time.monotonic() - start
            )

    def discard(self, directory: Path) -> None:
        """Moves a directory into the trash; nothing is deleted or overwritten in place.

        Its modification time is set to now: the grace period starts with it.
        """
        if not directory.exists():
            return
        trash = self.root / ".trash"
        trash.mkdir(parents=True, exist_ok=True)
        place = trash / f"{directory.parent.name}-{directory.name}-{time.time_ns()}"
        directory.rename(place)
        os.utime(place)

    def _reused(self, finding: Finding, start: float) -> Artifact:
        assert finding.artifact is not None
        seconds = time.monotonic() - start
        return finding.artifact.with_outcome(cached=True, reason=finding.reason, seconds=seconds)

    def _build(self, step: Step, lock_fd: int, reason: str) -> Artifact:
        work = self.work(step)
        work.mkdir(parents=True, exist_ok=True)
        for leftover in work.rglob(f"*{TEMPORARY_SUFFIX}"):
            leftover.unlink()
        workspace = Workspace(
            work, lock_fd, ingredients=step.ingredients, shelf=self.place(step).parent
        )
        share_heaps()
        begin_git_commit()
        start = time.monotonic()
        (work / FAILED).unlink(missing_ok=True)
        try:
            step.build(workspace)
        except PipelineError as error:
            if not isinstance(error, Interrupted):
                with suppress(OSError):  # which would hide the error itself
                    workspace.write_json(FAILED, {"error": f"{type(error).__name__}: {error}"})
            raise
        give_memory_back()
        seconds = time.monotonic() - start
        statuses = workspace.remove_leftovers()
        record = _record(step, workspace, statuses, reason, seconds)
        return self._commit(step, work, statuses, record)

    def _commit(
        self, step: Step, work: Path, statuses: Statuses, record: dict[str, Any]
    ) -> Artifact:
        """Fsyncs all files, the record too, then renames the directory into place."""
        write_json(work / RECORD, record, "later")
        # A file with another hard link is part of a committed artifact: it was fsynced then.
        new = [name for name, status in statuses.items() if status.st_nlink == 1]
        fsync_bytes([work / name for name in (*new, STAMPS, RECORD)])
        for folder in sorted(folders_of((*statuses, STAMPS)), reverse=True):
            fsync(work / folder)
        final = self.place(step)
        final.parent.mkdir(parents=True, exist_ok=True)
        work.rename(final)
        fsync(final.parent)
        return Artifact(step.stage, step.key, final, record["digest"], record)


def _record(
    step: Step, workspace: Workspace, statuses: Statuses, reason: str, seconds: float
) -> dict[str, Any]:
    """The step's record. `statuses` are from before the files are hashed, so that a later write
    shows in the stamps."""
    stamps = settled_stamps(statuses)
    files = payload_digests(workspace.path, statuses)
    note_stamps(workspace.path, {name: stamps[name] for name in files})
    record: dict[str, Any] = {
        "stage": step.stage,
        "key": step.key,
        "digest": content_digest(files),
        "ingredients": step.ingredients,
        "inputs": {
            name: {"stage": a.stage, "key": a.key, "path": str(a.path)}
            for name, a in {**step.uses, **step.inputs}.items()
        },
        "report": workspace.report,
        "files": files,
        "libraries": {name: library_version(name) for name in RECORDED_LIBRARIES},
        "git_commit": git_commit(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "reason": reason,
    }
    return record | {"checksum": checksum(record)}
