"""Wraps a user's collator: it gets token ids under our column names and under TRL's."""

from collections.abc import Callable, Mapping
from typing import Any

from tasks.tokenization.shards import IDS

TRL_NAMES: dict[str, str] = dict(zip(("chosen_ids", "rejected_ids"), IDS, strict=True))
"""Column names of token ids: TRL's -> ours."""


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
