"""Checkpoints that can be trusted after a kill, and the choice of the one to go on from.

    checkpoint-40/    what transformers' Trainer writes: weights, optimizer, schedule, random states
                      interval_<process>.json: sums of the unfinished logging interval
                      MANIFEST.json: size and SHA-256 of every file; written last, durably
    set_aside/        what was torn, damaged, or made by another job; out of the way, not deleted

A checkpoint without a manifest that holds does not exist. Order is by step: clocks may go back.
"""

import json
import logging
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tasks.artifact.digests import hash_file
from tasks.artifact.durable import files_below, fsync, read_json, write_json
from tasks.errors import TrainingError, shown

logger = logging.getLogger(__name__)

MANIFEST = "MANIFEST.json"
SET_ASIDE = "set_aside"
KEEP_TORN = 2
"""Of those set aside that were never finished; the others stay until somebody deletes them."""
STATE = "trainer_state.json"
"""What Trainer writes last: where it stands, the model does, whoever saved it."""
LIBRARIES = ("torch", "transformers", "accelerate", "peft")

Job = Mapping[str, Any]
"""What a checkpoint belongs to, as flat or nested JSON data; compared field by field."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint directory whose name says its step."""

    path: Path
    step: int


def interval_file(process: int) -> str:
    """Name of the file with one process's unfinished logging interval."""
    return f"interval_{process}.json"


def required_files(world_size: int, *, sharded: bool) -> list[str]:
    """Files without which a resumed run would differ silently; sharding engines name their own."""
    processes = range(world_size)
    intervals = [interval_file(process) for process in processes]
    if sharded:
        return [STATE, *intervals]
    states = ["rng_state.pth"] if world_size == 1 else [f"rng_state_{p}.pth" for p in processes]
    return [STATE, "optimizer.pt", "scheduler.pt", *states, *intervals]


def commit(directory: Path, step: int, job: Job, required: Iterable[str]) -> None:
    """Makes every file last, then says so in the manifest; only now the checkpoint exists.

    Raises:
        TrainingError: a required file was not written.
    """
    absent = [name for name in required if not (directory / name).is_file()]
    if not any(directory.glob("*.safetensors")) and not any(directory.glob("*model*/")):
        absent.append("weights")
    if absent:
        raise TrainingError(
            f"checkpoint {directory} lacks {', '.join(absent)}; it is not committed"
        )
    entries: dict[str, dict[str, Any]] = {}
    for path in files_below(directory):
        fsync(path)
        name = path.relative_to(directory).as_posix()
        entries[name] = {"bytes": path.stat().st_size, "sha256": hash_file(path)}
    for below in directory.rglob("*/"):
        fsync(below)
    manifest = {"step": step, "job": plain(job), "versions": versions(), "files": entries}
    write_json(directory / MANIFEST, manifest)
    fsync(directory.parent)


def problem(checkpoint: Checkpoint, job: Job) -> str | None:
    """Why the run must not go on from this checkpoint, as a sentence, or None."""
    manifest = read_json(checkpoint.path / MANIFEST)
    if not isinstance(manifest, dict):
        return (
            f"{MANIFEST} is missing or no JSON: it was never finished, or saved by another trainer "
            "or with save_only_model; where its model is whole, start from it: give it as model"
        )
    if manifest.get("step") != checkpoint.step:
        return f"{MANIFEST} is of step {shown(manifest.get('step'))}"
    changed = differences(manifest["job"], plain(job)) + differences(
        manifest["versions"], versions()
    )
    if changed:
        return "it belongs to another job: " + "; ".join(changed)
    for name, entry in manifest["files"].items():
        path = checkpoint.path / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != entry["bytes"]:
            return f"{name} has {path.stat().st_size} bytes, expected {entry['bytes']}"
        if hash_file(path) != entry["sha256"]:
            return f"{name} does not have the bytes that were written"
    return None


def newest_valid(directory: Path, job: Job) -> Checkpoint | None:
    """The checkpoint to go on from; newer ones that cannot be used are set aside, and named."""
    for checkpoint in sorted(checkpoints(directory), key=lambda c: -c.step):
        fault = problem(checkpoint, job)
        if fault is None:
            return checkpoint
        place = _set_aside(checkpoint)
        logger.warning("%s is not used: %s; moved to %s", checkpoint.path.name, fault, place)
    return None


def checkpoints(directory: Path) -> list[Checkpoint]:
    """Every checkpoint directory, whatever its state."""
    named = [(p, re.fullmatch(r"checkpoint-(\d+)", p.name)) for p in directory.glob("checkpoint-*")]
    return [Checkpoint(p, int(match[1])) for p, match in named if match and p.is_dir()]


def newest_committed(directory: Path) -> Checkpoint | None:
    """The newest checkpoint with a manifest; whether that holds is asked by `problem`."""
    committed = [found for found in checkpoints(directory) if is_committed(found)]
    return max(committed, key=lambda found: found.step, default=None)


def is_committed(checkpoint: Checkpoint) -> bool:
    """Whether a manifest stands; whether it holds is asked by `problem`."""
    return (checkpoint.path / MANIFEST).is_file()


def rotate(
    directory: Path, keep: int, protected: Iterable[Path] = (), *, committed: bool = True
) -> None:
    """Deletes the oldest checkpoints until `keep` are left, but not the newest nor the protected.

    Of those with a manifest, or of those without one.
    """
    stay = {path.resolve() for path in protected}
    counted = [c for c in checkpoints(directory) if is_committed(c) == committed]
    counted.sort(key=lambda c: c.step)
    free = [c for c in counted[:-1] if c.path.resolve() not in stay]
    for checkpoint in free[: max(0, len(counted) - keep)]:
        shutil.rmtree(checkpoint.path)


def withdraw(directory: Path) -> None:
    """Removes a checkpoint's manifest, before its directory is changed."""
    (directory / MANIFEST).unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """Versions of the libraries that decide a step's result."""
    found: dict[str, str] = {}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "absent"
    return found


def differences(was: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> list[str]:
    """`name was -> now` for every field that differs, with dotted names."""
    found: list[str] = []
    for name in sorted({*was, *now}):
        old, new = was.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{path}{name}.")
        elif old != new:
            found.append(f"{path}{name} {shown(old)} -> {shown(new)}")
    return found


def plain(job: Job) -> dict[str, Any]:
    """The job as it reads back from JSON."""
    return json.loads(json.dumps(job, default=str))


def _set_aside(checkpoint: Checkpoint) -> Path:
    aside = checkpoint.path.parent / SET_ASIDE
    aside.mkdir(exist_ok=True)
    number = 1 + max((int(p.name.partition("-")[0]) for p in aside.iterdir()), default=0)
    place = aside / f"{number:04d}-{checkpoint.path.name}"
    checkpoint.path.rename(place)
    ends = (MANIFEST, STATE)
    torn = sorted(p for p in aside.iterdir() if not any((p / name).is_file() for name in ends))
    for old in torn[:-KEEP_TORN]:
        shutil.rmtree(old)
    return place
