"""Pairs as a person reads them: where each one stands, how it was scored, and its texts.

    ORIGIN   pair_id source file row
    FIGURES  margin reward_chosen reward_rejected preference
    TEXTS    prompt chosen rejected

In: positions in `Scores`, and the pairs of conversion. Out: rows of these columns, to which the
tables of samples and of suspects add their own.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.evaluation.tables.scores import Scores
from tasks.evaluation.tables.texts import Row, answer_text, rows_of

Fields = Sequence[tuple[str, pa.DataType]]

ORIGIN: Fields = (
    *((name, pa.string()) for name in ("pair_id", "source", "file")),
    ("row", pa.int64()),
)
FIGURES: Fields = tuple(
    (name, pa.float64()) for name in ("margin", "reward_chosen", "reward_rejected", "preference")
)
TEXTS: Fields = tuple((name, pa.string()) for name in ("prompt", "chosen", "rejected"))


def shown_pairs(
    scores: Scores,
    places: Sequence[int],
    conversion: Path,
    prompt: Callable[[Row], str],
    shortened: Callable[[str], str],
) -> list[dict[str, Any]]:
    """A row per place, in that order. `prompt` gives the prompt's words; `shortened` cuts a text to
    what is shown of it."""
    pairs = [(str(scores.pair_id[i]), str(scores.source[i])) for i in places]
    found = dict(rows_of(conversion, set(pairs)))
    rows: list[dict[str, Any]] = []
    for i, pair in zip(places, pairs, strict=True):
        row = found[pair]
        rows.append(
            {
                **{name: row[name] for name, _ in ORIGIN},
                "margin": float(scores.margin[i]),
                "reward_chosen": float(scores.chosen[i]),
                "reward_rejected": float(scores.rejected[i]),
                "preference": float(scores.preference[i]),
                "prompt": shortened(prompt(row)),
                "chosen": shortened(answer_text(row, "chosen")),
                "rejected": shortened(answer_text(row, "rejected")),
            }
        )
    return rows
