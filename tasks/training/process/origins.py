"""Adds source file and row to an error message that names pairs by their id.

    "... 3 of 9 rows ... (the first is pair 0f3c...9a)"
    ->  "...; pair 0f3c...9a is votes.jsonl row 7 of source votes"

In:  the message, and the conversion artifact's directory, which is read only on a failure.
"""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks.conversion.shards import PAIRS
from tasks.errors import shown

PAIR_ID = re.compile(r"\b[0-9a-f]{32}\b")
MOST_PLACED = 5
COLUMNS = ["pair_id", "source", "file", "row"]


def with_origins(message: str, conversion: Path) -> str:
    """The message, followed by file, row and source of the first MOST_PLACED pairs in it."""
    named = PAIR_ID.findall(message)
    found: list[dict[str, Any]] = []
    for shard in sorted((conversion / PAIRS).glob("*.parquet")) if named else ():
        if len(found) < MOST_PLACED:
            table: Any = pq.read_table(shard, columns=COLUMNS, filters=[("pair_id", "in", named)])
            found += table.to_pylist()
    places = [
        f"pair {pair['pair_id']} is {shown(pair['file'])} row {pair['row']} of source "
        f"{pair['source']}"
        for pair in found[:MOST_PLACED]
    ]
    return "; ".join([message, *places])
