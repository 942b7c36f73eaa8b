"""Token ids that a model has no embedding for: refused by row and side, before they are looked up.

Data of the tokenization stage have the ids of the model's own tokenizer.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from datasets import IterableDataset

from tasks.errors import DataError, shown
from tasks.tokenization.shards import IDS
from tasks.training.batches.columns import owner, sequences
from tasks.training.batches.origin import is_from_tokenization


def within_vocabulary(rows: Any, vocabulary: int, name: str) -> Any:
    """The same rows (a data set, a dict of them, or None), whose ids are all below `vocabulary`.

    Raises:
        DataError: the model has no embedding for an id; of a stream, when the row comes.
    """
    if isinstance(rows, dict):
        parts: dict[str, Any] = rows  # pyright: ignore[reportUnknownVariableType]
        return {key: within_vocabulary(part, vocabulary, key) for key, part in parts.items()}
    if isinstance(rows, IterableDataset):
        check = partial(_row_within_vocabulary, vocabulary=vocabulary, name=name)
        return rows.map(check)
    if rows is None or is_from_tokenization(rows):
        return rows
    for start, sides in sequences(rows, name):
        for side, (lengths, ids) in zip(IDS, sides, strict=True):
            if ids.max(initial=0) >= vocabulary:
                at = int(np.argmax(ids >= vocabulary))
                row = rows[start + owner(lengths, at)]
                raise _unknown_id(row, side, int(ids[at]), vocabulary, name)
    return rows


def _row_within_vocabulary(row: dict[str, Any], vocabulary: int, name: str) -> dict[str, Any]:
    for side in IDS:
        largest = int(np.asarray(row[side]).max())
        if largest >= vocabulary:
            raise _unknown_id(row, side, largest, vocabulary, name)
    return row


def _unknown_id(
    row: Mapping[str, Any], side: str, token_id: int, vocabulary: int, name: str
) -> DataError:
    """Names the row by its `pair_id`, as its number has changed if rows before it were left out."""
    return DataError(
        f"the {name} dataset's {shown(row.get('pair_id'))}: {side} has the id {token_id}; expected "
        f"ids below {vocabulary}, for which the model has embeddings; tokenize the rows with the "
        "tokenizer that belongs to the model"
    )
