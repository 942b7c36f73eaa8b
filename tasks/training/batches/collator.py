"""Tokenized pairs -> one padded batch: the chosen sequences first, then the rejected ones.

Legend: B pairs, T tokens of the longest sequence (rounded up to `pad_to_multiple_of`), C
comparisons, K answers of the largest, S distinct sequences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tasks.conversion.preference.pair import TIE
from tasks.errors import DataError, ParamsError
from tasks.tokenization.shards import IDS
from tasks.training.batches.comparisons import answers, level_starts, ranking
from tasks.training.layout.choice import ExactLayout
from tasks.training.layout.plan import flat_plan, sequence_key
from tasks.training.layout.rectangle import rectangle
from tasks.training.loss.params import NEED_MARGIN, READ_TIES, REFUSE_SOFT, LossParams, soft_labels

Example = Mapping[str, Any]
NEUTRAL = {"margin": 0.0, "weight": 1.0, "preference": 1.0}
"""Numbers of a pair, and the value of an absent one."""


@dataclass
class DataCollatorForPreference:
    """Pads pairs on the right, to the longest sequence of the batch.

    An example holds `chosen_input_ids` and `rejected_input_ids`, and may hold `margin`, `weight`,
    `preference` and `pair_id`. The batch holds

    - `input_ids`: int64 `[2B, T]`, first half chosen, second half rejected, in the same order;
    - `attention_mask`: int64 `[2B, T]`, 1 on tokens, 0 on padding;
    - `margin`, `weight`, `preference`: float32 `[B]`, each only if the examples have it;
    - `pair_id`: a list of B strings for error messages, only if the examples have it.

        >>> DataCollatorForPreference(pad_token_id=0)(
        ...     [{"chosen_input_ids": [5, 6, 7], "rejected_input_ids": [8]}]
        ... )
        {'input_ids': tensor([[5, 6, 7], [8, 0, 0]]), 'attention_mask': ...}

    With a flat `layout` there is also the `plan` of the flat row that the model is given instead.

    Where an example is a list of the pairs of one comparison, each distinct answer stands once:
    `input_ids` is `[S, T]`, `chosen_row` and `rejected_row` int64 `[B]` say where a pair's sides
    stand, `weight` is divided by the number of pairs of the comparison, and for Plackett-Luce there
    are `ranking` int64 `[C, K]` (best first, -1 after the last), `ranking_level` int64 `[C, K]`
    (the column in `ranking` of the first answer of the same level) and `ranking_weight` `[C]`.
    """

    pad_token_id: int
    pad_to_multiple_of: int | None = None
    return_tensors: str = "pt"
    layout: ExactLayout = "padded"
    loss: LossParams = field(default_factory=LossParams)

    def __post_init__(self) -> None:
        if self.return_tensors != "pt":
            raise ParamsError(f"return_tensors is {self.return_tensors!r}; only 'pt' is supported")

    def __call__(self, examples: Sequence[Example] | Sequence[list[Example]]) -> dict[str, Any]:
        """The batch of these examples.

        Raises:
            DataError: a sequence is empty or missing, or a pair does not suit the loss.
        """
        if isinstance(examples[0], list):
            return self._of_comparisons(examples)  # pyright: ignore[reportArgumentType]
        pairs: Any = examples
        sequences = [_ids(pair, side) for side in IDS for pair in pairs]
        return self._laid_out(sequences, [*range(len(pairs))] * 2) | self._terms(pairs)

    def _of_comparisons(self, comparisons: Sequence[list[Example]]) -> dict[str, Any]:
        pairs = [pair for comparison in comparisons for pair in comparison]
        sequences: list[np.ndarray] = []
        groups: list[int] = []
        rows: list[list[int]] = [[], []]
        weight: list[float] = []
        rankings: list[list[int]] = []
        levels: list[list[int]] = []
        for group, comparison in enumerate(comparisons):
            places = answers(comparison)
            groups += [group] * len(places)
            row_of = {key: len(sequences) + n for n, key in enumerate(places)}
            sequences += [_ids(comparison[n], IDS[side]) for n, side in places.values()]
            for pair in comparison:
                for side, name in enumerate(IDS):
                    rows[side].append(row_of[sequence_key(pair[name])])
                weight.append(_number(pair, "weight") / len(comparison))
            if self.loss.type == "plackett_luce":
                order = ranking(comparison)
                best_first = [place for level in order for place in level]
                rankings.append(
                    [row_of[sequence_key(comparison[n][IDS[s]])] for n, s in best_first]
                )
                levels.append(level_starts(order))
        batch = self._laid_out(sequences, groups) | self._terms(pairs)
        batch |= {"chosen_row": torch.tensor(rows[0]), "rejected_row": torch.tensor(rows[1])}
        batch["weight"] = torch.tensor(weight, dtype=torch.float32)  # (B,)
        batch["comparison"] = [pair.get("comparison") for pair in pairs]
        if rankings:
            batch |= {"ranking": _filled(rankings), "ranking_level": _filled(levels)}  # (C, K) each
            sizes = [len(comparison) for comparison in comparisons]
            batch["ranking_weight"] = torch.stack(
                [part.sum() for part in batch["weight"].split(sizes)]
            )
        return batch

    def _terms(self, pairs: Sequence[Example]) -> dict[str, Any]:
        """What the loss reads beside the sequences, one value per pair."""
        self._check(pairs)
        terms: dict[str, Any] = {
            name: torch.tensor([_number(pair, name) for pair in pairs], dtype=torch.float32)
            for name in NEUTRAL
            if any(name in pair for pair in pairs)
        }  # (B,) each
        if "pair_id" in pairs[0]:
            terms["pair_id"] = [_id(pair) for pair in pairs]
        return terms

    def _check(self, pairs: Sequence[Example]) -> None:
        kind = self.loss.type
        for pair in pairs if kind in NEED_MARGIN else ():
            if pair.get("margin") is None:
                raise DataError(f"{_named(pair)}: no margin, but the loss {kind} needs one")
        for pair in pairs if kind in REFUSE_SOFT else ():
            preference = _number(pair, "preference")
            if preference < 1 and not (kind in READ_TIES and preference == TIE):
                raise DataError(
                    f"{_named(pair)}: preference {preference}, but the loss {kind} cannot use "
                    f"{soft_labels(kind)}; use bradley_terry or davidson"
                )

    def _laid_out(self, sequences: list[np.ndarray], groups: Sequence[int]) -> dict[str, Any]:
        """The padded sequences, and the plan; equal `groups`: sequences that share a prompt."""
        ids, mask = rectangle(sequences, self.pad_token_id, self.pad_to_multiple_of or 1)
        batch: dict[str, Any] = {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask),
        }
        if self.layout != "padded":
            shared = self.layout == "prefix_shared"
            batch["plan"] = flat_plan(sequences, groups if shared else range(len(sequences)))
        return batch


def _filled(rows: Sequence[list[int]]) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [-1] * (longest - len(row)) for row in rows])


def _ids(example: Example, name: str) -> np.ndarray:
    ids = np.asarray(example.get(name, ()), dtype=np.int64)
    if ids.size == 0:
        raise DataError(
            f"{_named(example)}: {name} is empty or missing; a reward needs at least one token"
        )
    return ids


def _number(pair: Example, name: str) -> float:
    value = pair.get(name)
    return NEUTRAL[name] if value is None else float(value)


def _named(example: Example) -> str:
    return f"pair {_id(example)}"


def _id(example: Example) -> str:
    pair_id = example.get("pair_id")
    return "(without id)" if pair_id is None else str(pair_id)
