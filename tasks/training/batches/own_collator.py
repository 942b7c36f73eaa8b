"""The collator of a trainer; a user's gets token ids under our column names and under TRL's."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from transformers import PreTrainedTokenizerBase

from tasks.tokenization.shards import IDS
from tasks.training.batches.collator import DataCollatorForPreference
from tasks.training.loss.params import LossParams
from tasks.training.model.padding import pad_id
from tasks.training.settings.config import RewardConfig

TRL_NAMES: dict[str, str] = dict(zip(("chosen_ids", "rejected_ids"), IDS, strict=True))
"""Column names of token ids: TRL's -> ours."""


def collator_of(
    given: Callable[[list[Any]], dict[str, Any]] | None,
    args: RewardConfig,
    tokenizer: PreTrainedTokenizerBase,
    loss: LossParams,
) -> "DataCollatorForPreference | OwnCollator":
    """Of a collator of pairs a copy for this loss, of None one by `args`; a user's in an
    OwnCollator."""
    if given is None:
        multiple: Any = args.pad_to_multiple_of  # a number by now: the config has read text
        return DataCollatorForPreference(pad_id(tokenizer), multiple, loss=loss)
    if not isinstance(given, DataCollatorForPreference):
        return OwnCollator(given)
    collator = copy.copy(given)  # it may serve other trainers, of other losses and layouts
    collator.loss = loss
    return collator


class OwnCollator:
    """Calls the collator with rows that have `chosen_input_ids` and `chosen_ids`, and the same for
    rejected. All other attributes are the collator's. Picklable if it is, for DataLoader workers.
    """

    def __init__(self, collator: Callable[[list[Any]], dict[str, Any]]) -> None:
        self.collator = collator

    def __call__(self, items: list[Any]) -> dict[str, Any]:
        """The batch of a list of rows."""
        return self.collator([_under_both(item) for item in items])

    def __getattr__(self, name: str) -> Any:
        if name == "collator":  # not there yet, while it is unpickled
            raise AttributeError(name)
        return getattr(self.collator, name)


def _under_both(item: Any) -> Any:
    if not isinstance(item, Mapping):  # a comparison: a list of answers
        return item
    return {**item, **{other: item[name] for other, name in TRL_NAMES.items()}}
