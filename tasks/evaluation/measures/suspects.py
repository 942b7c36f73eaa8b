"""Pairs that the model most confidently contradicts: labels worth a second look.

    rank pair_id source file row confidence margin reward_chosen reward_rejected preference
    prompt chosen rejected action

A person writes `flip`, `drop` or `tie` into `action`, leaves the others empty, and hands the file
to `conversion.overrides`. Held-out pairs only: of those trained on, a model knows the labels by
heart. In the CSV, text that a spreadsheet would take for a formula begins with an apostrophe.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.evaluation.measures.calibration import sigmoid
from tasks.evaluation.tables.scores import Floats, Scores
from tasks.evaluation.tables.shown_pairs import FIGURES, ORIGIN, TEXTS, shown_pairs
from tasks.evaluation.tables.texts import prompt_text

CONFIDENT = 0.9
EXCERPT_CHARACTERS = 400
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
TEXT_COLUMNS = ("source", "file", "prompt", "chosen", "rejected")

SCHEMA = pa.schema(
    [
        ("rank", pa.int32()),
        *ORIGIN,
        ("confidence", pa.float64()),
        *FIGURES,
        *TEXTS,
        ("action", pa.string()),
    ]
)


def contradiction(scores: Scores) -> Floats:
    """`preference - sigmoid(margin)` where the model prefers the rejected side, else 0: how far the
    label and the model are apart, `[N]` from 0 to 1. 0 for a pair without a right side."""
    against = scores.decided & (scores.margin < 0)
    return np.where(against, scores.preference - sigmoid(scores.margin), 0.0)


def suspect_figures(scores: Scores) -> dict[str, Any]:
    """How many pairs the model contradicts, and how many with 90 % confidence; by source."""
    against = contradiction(scores) > 0
    confident = against & (sigmoid(-scores.margin) >= CONFIDENT)
    sources = sorted(set(scores.source.tolist()))
    return {
        "contradicted": int(against.sum()),
        "confident": int(confident.sum()),
        "confident_at": CONFIDENT,
        "confident_by_source": {s: int(confident[scores.source == s].sum()) for s in sources},
    }


def suspect_table(scores: Scores, conversion: Path, most: int) -> pa.Table:
    """The `most` pairs of highest contradiction, the first first; equal ones by margin, then by
    pair_id."""
    scores = scores.take(scores.order())
    against = contradiction(scores)
    ranked = np.lexsort((np.arange(len(scores)), scores.margin, -against))[:most]
    ranked = ranked[against[ranked] > 0]
    rows = shown_pairs(scores, ranked.tolist(), conversion, prompt_text, excerpt)
    confidence = sigmoid(-scores.margin[ranked]).tolist()
    found = [
        {"rank": rank, "confidence": sure, "action": "", **row}
        for rank, (row, sure) in enumerate(zip(rows, confidence, strict=True), start=1)
    ]
    return pa.Table.from_pylist(found, schema=SCHEMA)


def excerpt(text: str) -> str:
    """The text in one line of at most 400 characters, its middle left out."""
    line = " ".join(text.split())
    if len(line) <= EXCERPT_CHARACTERS:
        return line
    half = EXCERPT_CHARACTERS // 2
    return f"{line[: half - 2]} … {line[len(line) - half + 1 :]}"


def write_csv(table: pa.Table, path: Path) -> None:
    """The table for a spreadsheet: UTF-8 with a byte order mark, text made harmless."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, table.column_names)
        writer.writeheader()
        for row in table.to_pylist():
            writer.writerow(row | {name: harmless(row[name]) for name in TEXT_COLUMNS})


def harmless(text: str) -> str:
    """Text that no spreadsheet runs: an apostrophe before what begins like a formula (OWASP, "CSV
    injection")."""
    return f"'{text}" if text.startswith(_FORMULA) else text
