"""Held-out pairs to read: the surest right verdicts, the surest wrong ones, and the closest calls.

kind rank pair_id source file row margin reward_chosen reward_rejected preference
prompt chosen rejected                        kind: right, wrong, close
"""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tasks.conversion.conversation.messages import text_of
from tasks.evaluation.tables.scores import Counts, Scores
from tasks.evaluation.tables.shown_pairs import FIGURES, ORIGIN, TEXTS, shown_pairs
from tasks.evaluation.tables.texts import prompt_text

OF_EACH_KIND = 3
CHARACTERS = 1500

SCHEMA = pa.schema([("kind", pa.string()), ("rank", pa.int32()), *ORIGIN, *FIGURES, *TEXTS])


def sample_table(scores: Scores, conversion: Path) -> pa.Table:
    """Up to three pairs of each kind, each pair once; of equal margins the first by pair_id."""
    scores = scores.take(scores.order())
    scores = scores.take(scores.decided)
    picked = [
        (kind, rank, i)
        for kind, places in _picked(scores).items()
        for rank, i in enumerate(places, start=1)
    ]
    rows = shown_pairs(scores, [i for _, _, i in picked], conversion, conversation, shortened)
    found = [
        {"kind": kind, "rank": rank, **row}
        for (kind, rank, _), row in zip(picked, rows, strict=True)
    ]
    return pa.Table.from_pylist(found, schema=SCHEMA)


def _picked(scores: Scores) -> dict[str, list[int]]:
    margin = scores.margin
    kinds: dict[str, tuple[Counts, Any]] = {
        "right": (np.argsort(-margin, kind="stable"), margin > 0),
        "wrong": (np.argsort(margin, kind="stable"), margin < 0),
        "close": (np.argsort(np.abs(margin), kind="stable"), np.ones_like(margin, bool)),
    }
    taken: set[int] = set()
    found: dict[str, list[int]] = {}
    for kind, (order, rows) in kinds.items():
        places = [int(i) for i in order if rows[i] and int(i) not in taken][:OF_EACH_KIND]
        taken.update(places)
        found[kind] = places
    return found


def conversation(row: dict[str, Any]) -> str:
    """The prompt as it is read: each turn with its role before it, but a user's that is alone."""
    prompt = orjson.loads(row["prompt"]) if row["prompt"] is not None else ""
    if not isinstance(prompt, list) or [turn["role"] for turn in prompt] == ["user"]:
        return prompt_text(row)
    return "\n\n".join(f"[{m['role']}] {text_of(m)}" for m in prompt)


def shortened(text: str) -> str:
    """The text in its lines, its middle left out where it is above 1,500 characters."""
    if len(text) <= CHARACTERS:
        return text
    half = CHARACTERS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out:,} characters ...]\n{text[len(text) - half :]}"
