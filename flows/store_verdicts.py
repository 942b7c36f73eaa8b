"""The command `verify`: the artifacts of a root and the versions registered from it, each with what
is wrong with it and what to do."""

from dataclasses import dataclass, field
from pathlib import Path

from tasks.artifact import Store
from tasks.artifact.inventory import Verdict, verify
from tasks.artifact.repair import repair as repaired
from tasks.registration import versions_standing

REPAIR = "`verify --repair` moves them to data/.trash; the next run builds them again"
REGISTER = "a run of the params file that a version came of uploads its files anew"
LEFT = " (left: somebody is building it, or it is no artifact of this store)"


@dataclass(frozen=True)
class Verified:
    """What a verification found, and what a repair moved."""

    artifacts: list[Verdict]
    versions: dict[str, str | None]
    moved: set[Path] = field(default_factory=set)
    repair: bool = False

    @property
    def bad(self) -> list[Verdict]:
        """The artifacts that are damaged or closed."""
        return [verdict for verdict in self.artifacts if verdict.problem]

    @property
    def faulty(self) -> int:
        """How many versions do not stand as they were registered."""
        return sum(fault is not None for fault in self.versions.values())

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong now."""
        return len(self.bad) == len(self.moved) and not self.faulty


def verify_store(root: Path, *, deep: bool, repair: bool) -> Verified:
    """Looks at everything below the root; `deep` reads every file, `repair` moves what is damaged.

    Raises:
        ArtifactError: to be repaired, but a run is going or the store cannot be written to.
    """
    store = Store(root / "data")
    moved: set[Path] = set()
    if repair:
        verdicts, moved = repaired(store, deep=deep)
    else:
        verdicts = verify(store, deep=deep)
    intact = [v.artifact for v in verdicts if v.artifact and not v.problem]
    return Verified(verdicts, versions_standing(intact, root, deep=deep), moved, repair)


def print_verdicts(found: Verified) -> None:
    """Prints every verdict, the numbers, and what to do."""
    for verdict in found.artifacts:
        word = "CLOSED" if verdict.closed else "DAMAGED" if verdict.problem else "ok"
        done = " (moved)" if verdict.path in found.moved else ""
        if found.repair and word == "DAMAGED" and not done:
            done = LEFT
        told = (verdict.problem or "").removeprefix("DAMAGED ")
        print(f"{word:<7} {verdict.path}  {told}{done}".rstrip())
    for uri, fault in found.versions.items():
        word = "ok" if fault is None else "FAULT"
        print(f"{word:<7} {uri}  {(fault or '').removeprefix('REGISTRY ')}".rstrip())
    damaged = sum(not verdict.closed for verdict in found.bad)
    print(
        f"{_number(len(found.artifacts), 'artifact')}, {damaged} damaged; "
        f"{_number(len(found.versions), 'registered version')}, {found.faulty} at fault"
    )
    if found.moved:
        print(f"moved {len(found.moved)} to data/.trash; the next run builds what it needs again")
    elif damaged and not found.repair:
        print(REPAIR)
    if found.faulty:
        print(REGISTER)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
