"""Held-out pairs to read: the surest right verdicts, the surest wrong ones, and the closest calls.

kind rank pair_id source file row margin reward_chosen reward_rejected preference
prompt chosen rejected                        kind: right, wrong, close
"""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tasks.evaluation.table import Counts, Scores
from tasks.evaluation.texts import answer_text, prompt_text, split_rows

OF_EACH_KIND = 3
CHARACTERS = 1500

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("rank", pa.int32()),
        ("pair_id", pa.string()),
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("margin", pa.float64()),
        ("reward_chosen", pa.float64()),
        ("reward_rejected", pa.float64()),
        ("preference", pa.float64()),
        ("prompt", pa.string()),
        ("chosen", pa.string()),
        ("rejected", pa.string()),
    ]
)


def sample_table(scores: Scores, conversion: Path) -> pa.Table:
    """Up to three pairs of each kind, each pair once; of equal margins the first by pair_id."""
    scores = scores.take(scores.order())
    scores = scores.take(scores.decided)
    picked = _picked(scores)
    wanted = {str(scores.pair_id[i]) for places in picked.values() for i in places}
    rows = {(r["pair_id"], r["source"]): r for r in split_rows(conversion, pair_ids=wanted)}
    found = [
        {
            "kind": kind,
            "rank": rank,
            **_described(rows[(str(scores.pair_id[i]), str(scores.source[i]))]),
            "margin": float(scores.margin[i]),
            "reward_chosen": float(scores.chosen[i]),
            "reward_rejected": float(scores.rejected[i]),
            "preference": float(scores.preference[i]),
        }
        for kind, places in picked.items()
        for rank, i in enumerate(places, start=1)
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


def _described(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("pair_id", "source", "file", "row")},
        "prompt": shortened(conversation(row)),
        "chosen": shortened(answer_text(row, "chosen")),
        "rejected": shortened(answer_text(row, "rejected")),
    }


def conversation(row: dict[str, Any]) -> str:
    """The prompt as it is read: of several turns each with its role before it."""
    prompt = orjson.loads(row["prompt"]) if row["prompt"] is not None else ""
    if not isinstance(prompt, list) or len(prompt) < 2:
        return prompt_text(row)
    return "\n\n".join(f"[{m['role']}] {_words(m.get('content'))}" for m in prompt)


def _words(content: Any) -> str:
    return content if isinstance(content, str) else orjson.dumps(content).decode()


def shortened(text: str) -> str:
    """The text in its lines, its middle left out where it is above 1,500 characters."""
    if len(text) <= CHARACTERS:
        return text
    half = CHARACTERS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out:,} characters ...]\n{text[len(text) - half :]}"
