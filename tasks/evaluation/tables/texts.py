"""The table of texts: what every scored pair looks like, read once from the pairs of conversion.

    pair_id source file row format group language turns | <side>_characters <side>_lists
    <side>_headers <side>_bold <side>_code <side>_opening | chosen_first   (side: chosen, rejected)

One row per row of the score table, in its order. `group` is the hash of the normalised prompt,
`turns` the number of user turns (1 for text), `chosen_first` whether the chosen answer stood before
the rejected one in its row (null: its row has no order); the others are those of `surface.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.conversion.conversation.messages import text_of
from tasks.errors import DataError
from tasks.evaluation.tables.language import is_told, language
from tasks.evaluation.tables.scores import SIDES, Counts, Floats, Mask, Strings, numbered
from tasks.evaluation.tables.surface import FEATURES, features, opening

KEYS = ["split", "pair_id", "source"]
CHOSEN_FIRST: Mapping[bool | None, float] = {True: 1.0, False: -1.0, None: 0.0}
Row = dict[str, Any]
PairKey = tuple[str, str]
"""`(pair_id, source)`: equal texts in two sources are one `pair_id`."""

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("pair_id", "source", "file")),
        ("row", pa.int64()),
        *((name, pa.string()) for name in ("format", "group", "language")),
        ("turns", pa.int32()),
        *((f"{side}_{name}", pa.int32()) for side in SIDES for name in FEATURES),
        *((f"{side}_opening", pa.string()) for side in SIDES),
        ("chosen_first", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Texts:
    """The columns that figures are computed from, aligned with `Scores`."""

    group: Counts
    """The number of the prompt."""
    format: Strings
    language: Strings
    turns: Counts
    chosen: Floats
    """`[N, F]`, F as in `FEATURES`."""
    rejected: Floats
    chosen_opening: Strings
    rejected_opening: Strings
    first: Floats
    """1 where the chosen answer stood first in its row, -1 where the rejected one did, else 0."""

    def take(self, rows: Mask | Counts) -> "Texts":
        """These rows: a mask `[N]`, or positions."""
        return Texts(*(column[rows] for column in vars(self).values()))


def text_table(conversion: Path, pairs: Iterable[PairKey], split: str = "eval") -> pa.Table:
    """What these pairs look like, in their order.

    Raises:
        DataError: a scored pair is not among those of conversion.
    """
    wanted = list(pairs)
    needed = set(wanted)
    found = {pair: _described(row) for pair, row in rows_of(conversion, needed, split)}
    if missing := [pair for pair in wanted if pair not in found]:
        raise DataError(
            f"{conversion / 'pairs'} holds {len(found)} of {len(needed)} scored pairs, "
            f"{missing[0][0]} of source {missing[0][1]!r} is missing; give evaluation the "
            "conversion that was tokenized"
        )
    return pa.Table.from_pylist([found[pair] for pair in wanted], schema=SCHEMA)


def rows_of(
    conversion: Path, pairs: Set[PairKey], split: str = "eval"
) -> Iterator[tuple[PairKey, Row]]:
    """The pairs of conversion that have one of these keys in a split, each with its key; in the
    order of the shards. Of a row group that holds none of them, only the keys are read."""
    for shard in sorted((conversion / "pairs").glob("*.parquet")):
        with pq.ParquetFile(shard) as file:
            for number in range(file.num_row_groups):
                keys = file.read_row_group(number, KEYS)
                columns = (keys[name].to_pylist() for name in KEYS)
                rows = [
                    i
                    for i, (name, *pair) in enumerate(zip(*columns, strict=True))
                    if name == split and tuple(pair) in pairs
                ]
                if rows:
                    for row in file.read_row_group(number).take(rows).to_pylist():
                        yield (row["pair_id"], row["source"]), row


def _described(row: Row) -> Row:
    prompt = prompt_text(row)
    answers = {side: answer_text(row, side) for side in SIDES}
    sides: Row = {}
    for side, text in answers.items():
        counts = zip(FEATURES, features(text), strict=True)
        sides |= {f"{side}_{name}": count for name, count in counts}
        sides[f"{side}_opening"] = opening(text)
    kept = {name: row[name] for name in ("pair_id", "source", "file", "row", "format", "group")}
    return {
        **kept,
        "language": _language(prompt, answers["chosen"]),
        "turns": _turns(row),
        **sides,
        "chosen_first": row.get("chosen_first"),
    }


def _language(prompt: str, answer: str) -> str:
    """Of the prompt; of the answer where the prompt does not tell."""
    asked = language(prompt)
    return asked if is_told(asked) else language(f"{prompt}\n{answer}")


def answer_text(row: Mapping[str, Any], side: str) -> str:
    """The words of an answer; of several turns, the assistant's, one after the other."""
    answer = orjson.loads(row[side])
    if isinstance(answer, str):
        return answer.strip()
    return "\n".join(text_of(m) for m in answer if m["role"] == "assistant").strip()


def prompt_text(row: Mapping[str, Any]) -> str:
    """The words of the prompt: text, or the last user's turn."""
    prompt = orjson.loads(row["prompt"]) if row["prompt"] is not None else ""
    if not isinstance(prompt, list):
        return prompt or ""
    said = [text_of(m) for m in prompt if m["role"] == "user"]
    return said[-1] if said else ""


def _turns(row: Mapping[str, Any]) -> int:
    if row["format"] != "conversational":
        return 1
    whole = [*(orjson.loads(row["prompt"] or "null") or []), *orjson.loads(row["chosen"])]
    return sum(message["role"] == "user" for message in whole)


def read_texts(path: Path) -> Texts:
    """The figures' columns of a text table's Parquet file."""
    return texts_of(pq.read_table(path))


def texts_of(table: pa.Table) -> Texts:
    """The figures' columns of a text table."""

    def strings(name: str) -> Strings:
        return np.asarray(table[name].to_pylist(), dtype=np.str_)

    def counts(side: str) -> Floats:
        columns = [table[f"{side}_{name}"].to_numpy() for name in FEATURES]
        return np.stack(columns, axis=1).astype(np.float64)

    return Texts(
        group=numbered(table["group"].to_pylist()),
        format=strings("format"),
        language=strings("language"),
        turns=table["turns"].to_numpy().astype(np.int64),
        chosen=counts("chosen"),
        rejected=counts("rejected"),
        chosen_opening=strings("chosen_opening"),
        rejected_opening=strings("rejected_opening"),
        first=np.asarray([CHOSEN_FIRST[first] for first in table["chosen_first"].to_pylist()]),
    )
