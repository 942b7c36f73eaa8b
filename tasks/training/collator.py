"""Tokenized pairs -> one padded batch: the chosen sequences first, then the rejected ones.

Legend: B pairs, T tokens of the longest sequence (rounded up to `pad_to_multiple_of`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tasks.errors import DataError, ParamsError


@dataclass
class DataCollatorForPreference:
    """Pads pairs on the right, to the longest sequence of the batch.

    An example holds `chosen_input_ids` and `rejected_input_ids`, and may hold `margin`, `weight`
    and `pair_id`. The batch holds

    - `input_ids`: int64 `[2B, T]`, first half chosen, second half rejected, in the same order;
    - `attention_mask`: int64 `[2B, T]`, 1 on tokens, 0 on padding;
    - `margin`, `weight`: float32 `[B]`, each only if the examples have it;
    - `pair_id`: a list of B strings for error messages, only if the examples have it.

        >>> DataCollatorForPreference(pad_token_id=0)(
        ...     [{"chosen_input_ids": [5, 6, 7], "rejected_input_ids": [8]}]
        ... )
        {'input_ids': tensor([[5, 6, 7], [8, 0, 0]]), 'attention_mask': ...}
    """

    pad_token_id: int
    pad_to_multiple_of: int | None = None
    return_tensors: str = "pt"

    def __post_init__(self) -> None:
        if self.return_tensors != "pt":
            raise ParamsError(f"return_tensors is {self.return_tensors!r}; only 'pt' is supported")

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The batch of these examples.

        Raises:
            DataError: a sequence is empty or missing.
        """
        input_ids, attention_mask = self._padded(
            [_ids(example, "chosen_input_ids") for example in examples]
            + [_ids(example, "rejected_input_ids") for example in examples]
        )
        batch: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        for name, absent in (("margin", 0.0), ("weight", 1.0)):
            if name in examples[0]:
                values = [absent if e[name] is None else e[name] for e in examples]
                batch[name] = torch.tensor(values, dtype=torch.float32)  # (B,)
        if "pair_id" in examples[0]:
            batch["pair_id"] = [str(example["pair_id"]) for example in examples]
        return batch

    def _padded(self, sequences: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(len(ids) for ids in sequences)
        multiple = self.pad_to_multiple_of or 1
        length = -(-longest // multiple) * multiple
        input_ids = np.full((len(sequences), length), self.pad_token_id, dtype=np.int64)
        attention_mask = np.zeros_like(input_ids)
        for row, ids in enumerate(sequences):
            input_ids[row, : len(ids)] = ids
            attention_mask[row, : len(ids)] = 1
        return torch.from_numpy(input_ids), torch.from_numpy(attention_mask)  # (2B, T) each


def _ids(example: Mapping[str, Any], name: str) -> np.ndarray:
    ids = np.asarray(example.get(name, ()), dtype=np.int64)
    if ids.size == 0:
        raise DataError(
            f"pair {example.get('pair_id', '(without id)')}: {name} is empty or missing; a reward "
            "needs at least one token"
        )
    return ids
