"""Why a step has to be built: its difference to the nearest artifact that stands, cause by cause.

PARAMS tokenization.max_length 1024 -> 512
INPUT conversion ab12cd34 -> 99ef0011
VERSION 3 -> 4
LIBRARY transformers 5.22.0 -> 5.23.0
FILE tokenizer ab12cd34 -> 99ef0011
NEVER BUILT

Params are named as an override names them: ingestion.sources.0.limit.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tasks.artifact.record import RECORD, Artifact, read_artifact
from tasks.artifact.step import Step

NEVER_BUILT = "NEVER BUILT"
SHORT = 8
KINDS = {"inputs": "INPUT", "libraries": "LIBRARY", "files": "FILE"}


def causes(step: Step, root: Path) -> tuple[str, ...]:
    """One sentence per cause, against the committed record with the fewest differences;
    `NEVER BUILT` where no artifact of the stage stands."""
    candidates: list[tuple[int, str, list[str]]] = []
    for path in (root / step.shelf).glob(f"*/{RECORD}"):
        known = read_artifact(path.parent)  # a damaged one explains nothing
        if isinstance(known, Artifact) and known.stage == step.stage:
            found = differences(known.record["ingredients"], step.ingredients, step.places)
            candidates.append((-len(found), str(known.record["created"]), found))
    if not candidates:
        return (NEVER_BUILT,)
    return tuple(max(candidates)[2]) or (f"GONE {step.key}",)


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], places: Mapping[str, str]
) -> list[str]:
    """One sentence per ingredient that differs, in the order: version, params, inputs, others.

    `places` is the step's.
    """
    found: list[str] = []
    if old["version"] != new["version"]:
        found.append(f"VERSION {old['version']} -> {new['version']}")
    found += _changed(str(new["stage"]), old["params"], new["params"], places)
    for section, kind in KINDS.items():
        before, after = old.get(section, {}), new[section]
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                found.append(f"{kind} {name} {_short(before, name)} -> {_short(after, name)}")
    return found


def _changed(
    path: str, old: Any, new: Any, places: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        below = {name: places.get(name, f"{path}.{name}") for name in [*old, *new]}
        return [s for name, p in below.items() for s in _changed(p, old.get(name), new.get(name))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [s for i, (a, b) in pairs for s in _changed(f"{path}.{i}", a, b)]
    return [f"PARAMS {path} {_brief(old)} -> {_brief(new)}"]


def _brief(value: Any) -> str:
    if isinstance(value, str) and len(value) == 64 and value.isalnum():
        return value[:SHORT]
    text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _short(section: Mapping[str, Any], name: str) -> str:
    return _brief(section[name]) if name in section else "none"
