"""Benchmark prompts that the model was trained on, under whatever system text.

A prompt is known by the group that conversion gives it without the system turns that it begins
with: equal ones are equal but for case, whitespace and Unicode forms.
"""

from collections.abc import Sequence, Set
from itertools import dropwhile
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from tasks.conversion.conversation.messages import Messages
from tasks.conversion.preference.identity import prompt_group
from tasks.conversion.preference.pair import Pair
from tasks.evaluation.benchmarks.items import Item
from tasks.templating.turn_order import SYSTEM

EXAMPLES = 20
BEGINNINGS = tuple(f'[{{"role":"{role}"' for role in SYSTEM)
"""Of the JSON of prompts that begin with a system turn, as conversion stores them."""


def training_groups(conversion: Path) -> set[str]:
    """The groups of the training pairs' prompts, without leading system turns."""
    trained_on = [("split", "=", "train")]
    groups: set[str] = set()
    for path in sorted((conversion / "pairs").glob("*.parquet")):
        table = pq.read_table(path, columns=["group", "prompt"], filters=trained_on)
        for group, prompt in zip(*(column.to_pylist() for column in table.columns), strict=True):
            if prompt is not None and prompt.startswith(BEGINNINGS):
                group = _group(orjson.loads(prompt))
            groups.add(group)
    return groups


def _group(prompt: Messages) -> str:
    """The group without the system turns that the prompt begins with, if it has any other."""
    asked = [*dropwhile(lambda message: message["role"] in SYSTEM, prompt)]
    return prompt_group(Pair(asked or prompt, "", ""))


def contamination(items: Sequence[Item], trained_on: Set[str]) -> dict[str, Any]:
    """`{items, shared, share, ids}`: items whose prompt stands in the training pairs; `ids` of the
    first 20 of them, in the order of the files."""
    shared = [item.id for item in items if _group(item.turns) in trained_on]
    return {
        "items": len(items),
        "shared": len(shared),
        "share": len(shared) / len(items),
        "ids": shared[:EXAMPLES],
    }
