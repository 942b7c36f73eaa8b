"""What differs between a score contract and a model that is held against it, in a sentence."""

from collections.abc import Mapping
from typing import Any

from tasks.errors import shown
from tasks.training.handover.contract_file import SIDES


def difference_of_settings(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """The first of the tokenizer's settings that is another one."""
    for key, value in expected.items():
        if found.get(key) != value:
            of_template = key == "chat_template_sha256"
            what, name = ("template", "chat template") if of_template else ("tokenizer", key)
            return f"{what}: {name} is {shown(found.get(key))}, expected {shown(value)}"
    return None


def difference(expected: Mapping[str, Any], found: Mapping[str, Any], limit: float) -> str | None:
    """The first thing in which a probe differs, in the order in which one causes the next."""
    if expected.get("refused") != found.get("refused"):
        was, now = (p.get("refused") or "accepted" for p in (expected, found))
        return f"template: the row was {was} in training, and is {now} here"
    if "refused" in expected:
        return None
    for what, name in (("template", "texts"), ("template", "literals"), ("tokenizer", "ids")):
        for side, was, now in zip(SIDES, expected.get(name, ()), found.get(name, ()), strict=False):
            if was != now:
                places = enumerate(zip(was, now, strict=False))
                at = next((i for i, (a, b) in places if a != b), min(len(was), len(now)))
                return (
                    f"{what}: {name} of {side} differ from place {at} on: "
                    f"{shown(now[at : at + 12])}, expected {shown(was[at : at + 12])}"
                )
    for side, was, now in zip(SIDES, expected["rewards"], found["rewards"], strict=True):
        if not abs(was - now) <= limit * max(1.0, abs(was)):
            return f"reward: {side} got {now:.6g}, expected {was:.6g} (within {limit:g})"
    return None
