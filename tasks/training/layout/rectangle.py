"""Sequences as a rectangle, padded on the right: the layout that fits every model.

Legend: S sequences, T tokens of the longest, rounded up to `multiple`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tasks.training.layout.plan import Ids

Rectangle = npt.NDArray[np.int64]


def rectangle(
    sequences: Sequence[Ids], pad_id: int, multiple: int = 1
) -> tuple[Rectangle, Rectangle]:
    """Ids and attention mask, int64 `[S, T]` each; the mask is 1 on tokens, 0 on padding."""
    length = -(-max(map(len, sequences)) // multiple) * multiple
    input_ids = np.full((len(sequences), length), pad_id, dtype=np.int64)
    attention_mask = np.zeros_like(input_ids)
    for row, ids in enumerate(sequences):
        input_ids[row, : len(ids)] = ids
        attention_mask[row, : len(ids)] = 1
    return input_ids, attention_mask
