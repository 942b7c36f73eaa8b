"""Why a step has to be built: its difference to the nearest artifact that stands, cause by cause.

What earlier runs of the same params file have used comes before all others.

PARAMS tokenization.max_length 1024 -> 512
PARAMS ingestion.sources: 'chat' removed
PARAMS ingestion.sources: 'votes', 'x' added
INPUT conversion ab12cd34 -> 99ef0011
VERSION 3 -> 4
LIBRARY transformers 5.22.0 -> 5.23.0
FILE tokenizer ab12cd34 -> 99ef0011
NEVER BUILT

Params are named as an override names them: ingestion.sources.0.limit. What has a name, such as a
source, is held against what had it before, wherever that stood.
"""

from collections.abc import Collection, Mapping
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tasks.artifact.key import canonical_json
from tasks.artifact.record import RECORD, Artifact, read_artifact
from tasks.artifact.step import Step
from tasks.errors import shown, some

NEVER_BUILT = "NEVER BUILT"
SHORT = 8
LONGEST, BEFORE = 60, 20
"""Characters of a value that are shown, and how many of those that two values share."""
MOST = 20
"""Causes that are told; the others are counted."""
KINDS = {"inputs": "INPUT", "libraries": "LIBRARY", "files": "FILE"}


def causes(step: Step, root: Path, mine: Collection[tuple[str, str]] = ()) -> tuple[str, ...]:
    """One sentence per cause, against the committed record with the fewest differences, of those
    that the params file's own runs have used (`mine`: stage and key) if there are any;
    `NEVER BUILT` where no artifact of the stage stands."""
    candidates: list[tuple[bool, int, str, list[str]]] = []
    for path in (root / step.shelf).glob(f"*/{RECORD}"):
        known = read_artifact(path.parent)  # a damaged one explains nothing
        if isinstance(known, Artifact) and known.stage == step.stage:
            found = differences(known.record["ingredients"], step.ingredients, step.places)
            own = (known.stage, known.key) in mine
            candidates.append((own, -len(found), str(known.record["created"]), found))
    if not candidates:
        return (NEVER_BUILT,)
    told = max(candidates)[-1] or [f"GONE {step.key}"]
    more = len(told) - MOST
    return (*told[:MOST], f"and {more:,} more") if more > 0 else tuple(told)


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
    if canonical_json(old) == canonical_json(new):  # to Python 1 is True
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        return _changed_mapping(path, old, new, places)
    if isinstance(old, list) and isinstance(new, list):
        return _changed_list(path, old, new)
    return [f"PARAMS {path} {' -> '.join(_brief_pair(old, new))}"]


def _changed_mapping(
    path: str, old: dict[str, Any], new: dict[str, Any], places: Mapping[str, str]
) -> list[str]:
    values = (*old.values(), *new.values())
    of_sections = bool(old and new) and all(isinstance(value, dict) for value in values)
    found = _added_and_removed(path, [*old], [*new]) if of_sections else []
    names = [name for name in new if name in old] if of_sections else {**old, **new}
    below = {name: places.get(name, f"{path}.{name}") for name in names}
    return found + [s for n, p in below.items() for s in _changed(p, old.get(n), new.get(n))]


def _changed_list(path: str, old: list[Any], new: list[Any]) -> list[str]:
    before, after = _by_name(old), _by_name(new)
    if before is None or after is None:
        if len(old) != len(new):
            return _added_and_removed(path, old, new)
        before, after = dict(enumerate(old)), dict(enumerate(new))
    found = _added_and_removed(path, [*before], [*after])
    if [n for n in before if n in after] != [n for n in after if n in before]:
        found.append(f"PARAMS {path}: in another order")
    numbered = enumerate(after.items())
    return found + [
        s for i, (n, v) in numbered if n in before for s in _changed(f"{path}.{i}", before[n], v)
    ]


def _by_name(items: list[Any]) -> dict[Any, Any] | None:
    """The items by their names, which texts are themselves; None where not each has its own."""
    names = [item.get("name") if isinstance(item, dict) else item for item in items]
    own = all(isinstance(name, str) for name in names) and len({*names}) == len(names)
    return dict(zip(names, items, strict=True)) if own else None


def _added_and_removed(path: str, old: list[Any], new: list[Any]) -> list[str]:
    """What stands in one of two lists only."""
    added = [*new]
    removed = [value for value in old if not _removed_from(added, value)]
    told = (removed, "removed"), (added, "added")
    return [
        f"PARAMS {path}: {some([shown(value) for value in values])} {what}"
        for values, what in told
        if values
    ]


def _removed_from(values: list[Any], value: Any) -> bool:
    there = value in values
    if there:
        values.remove(value)
    return there


def _brief_pair(old: Any, new: Any) -> tuple[str, str]:
    """Two values that differ, so that one sees where they do."""
    before, after = str(old), str(new)
    if before == after:
        return repr(old), repr(new)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    common = len([*alike])
    start = common - BEFORE if max(len(before), len(after)) > LONGEST and common > BEFORE else 0
    return _brief(before, start), _brief(after, start)


def _brief(text: str, start: int = 0) -> str:
    if len(text) == 64 and text.isalnum():
        return text[:SHORT]
    text = "…" * (start > 0) + text[start:]
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _short(section: Mapping[str, Any], name: str) -> str:
    return _brief(section[name]) if name in section else "none"
