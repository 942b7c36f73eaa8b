"""Refs: files that keep artifacts alive, the roots of the garbage collection.

    data/refs/<kind>-<name>.json    {"keeps": [[stage, key], ...], "facts": ..., "params_file": ...}

Kinds: `run`, a finished run; `unfinished`, a run that is going or was stopped; `registering`, a run
that began to register a version, which may exist even if the run was then killed; `version`, a
registered model version. A ref of any other kind, such as `pin`, was written by hand.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifact.durable import explained_disk_errors, write_json
from tasks.artifact.record import Artifact
from tasks.errors import ArtifactError

if TYPE_CHECKING:
    from tasks.artifact.store import Store

RUN, UNFINISHED, REGISTERING, VERSION = "run", "unfinished", "registering", "version"
RUN_TIME, TICK = "%Y%m%dT%H%M%S.%fZ", timedelta(microseconds=1)
"""The name of a run's ref begins with its time; its process id tells apart two of the same time."""
Name = tuple[str, str]
"""Stage and key of an artifact."""


def keep(
    store: "Store", kind: str, name: str, artifacts: Iterable[Artifact], facts: Any = None
) -> Path:
    """Writes a ref: these artifacts, and all that they were made from, stay.

    Raises:
        ArtifactError: the store cannot be written to.
    """
    path = store.root / "refs" / f"{kind}-{name}.json"
    names = [[a.stage, a.key] for a in artifacts]
    with explained_disk_errors(store.root):
        write_json(path, {"keeps": names, "facts": facts, "params_file": store.params_file})
    return path


def release(store: "Store", artifacts: Iterable[Artifact]) -> None:
    """Removes the refs of unfinished runs that keep only artifacts which a finished run now keeps.

    A ref that cannot be read stays; `gc` reports it.
    """
    kept = {(a.stage, a.key) for a in artifacts}
    with explained_disk_errors(store.root):
        for path in (*refs(store, UNFINISHED), *refs(store, REGISTERING)):
            with suppress(ArtifactError):
                if kept_by(path) <= kept:
                    path.unlink(missing_ok=True)


def refs(store: "Store", kind: str = "*") -> list[Path]:
    """The refs of a kind, the oldest first."""
    return sorted((store.root / "refs").glob(f"{kind}-*.json"))


def kept_by(path: Path) -> set[Name]:
    """What a ref keeps alive.

    Raises:
        ArtifactError: that cannot be read.
    """
    return _read(path)["keeps"]


def used_by(store: "Store", params_file: str) -> set[Name]:
    """What the runs of a params file have built or found, as far as refs tell; of one that cannot
    be read nothing is known."""
    used: set[Name] = set()
    for path in refs(store):
        with suppress(ArtifactError):
            found = _read(path)
            used |= found["keeps"] if found["params_file"] == params_file else set[Name]()
    return used


def facts(path: Path) -> Any:
    """The facts that a ref holds beside the artifacts that it keeps.

    Raises:
        ArtifactError: that cannot be read.
    """
    return _read(path)["facts"]


def params_file(path: Path) -> str | None:
    """The params file of the run that a ref is of; None of one that was written by hand.

    Raises:
        ArtifactError: that cannot be read.
    """
    return _read(path)["params_file"]


def run_name(store: "Store") -> str:
    """A name for a run's ref that sorts behind those of all earlier runs: the time now, or one tick
    after the newest ref if that was named by a clock ahead of this one."""
    times = [datetime.now(UTC)]
    named = (*refs(store, RUN), *refs(store, UNFINISHED))
    times += [time + TICK for time in map(time_of, named) if time]
    return f"{max(times).strftime(RUN_TIME)}-{os.getpid()}"


def time_of(path: Path) -> datetime | None:
    """The time that the ref of a run is named by; None of one that was named by hand."""
    with suppress(ValueError, IndexError):
        return datetime.strptime(path.stem.split("-")[1], RUN_TIME).replace(tzinfo=UTC)
    return None


def _read(path: Path) -> dict[str, Any]:
    """What a ref says; one that another run has removed since it was listed says nothing."""
    try:
        ref = json.loads(path.read_bytes())
        optional = {name: ref.get(name) for name in ("facts", "params_file")}
        return {**optional, "keeps": {(str(s), str(k)) for s, k in ref["keeps"]}}
    except FileNotFoundError:
        return {"facts": None, "params_file": None, "keeps": set()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ArtifactError(
            f'{path} is damaged: expected {{"keeps": [[stage, key], ...]}} as JSON, so it is not '
            "known which artifacts it keeps; restore it, or remove it to let them go (a run of the "
            "same params keeps them anew)"
        ) from None
