"""Rows of a stream that are left out: the first for each reason is logged as it comes, since a
stream is never counted whole.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from datasets import IterableDataset

logger = logging.getLogger(__name__)

Ids = Sequence[int]
Reason = Callable[[Ids, Ids], str]
"""Why a row of two sides is left out; nothing where it is not."""


@dataclass
class Used:
    """A filter that keeps the rows without a reason against them."""

    reason: Reason
    told: bool = False

    def __call__(self, chosen: Ids, rejected: Ids, pair_id: str) -> bool:
        reason = self.reason(chosen, rejected)
        if reason and not self.told:
            self.told = True
            logger.warning("a row of the stream is not used: %s: %s", pair_id, reason)
        return not reason


def without(rows: IterableDataset, columns: Sequence[str], reason: Reason) -> IterableDataset:
    """The rows that nothing is against; `columns` are those of the two sides."""
    return rows.filter(Used(reason), input_columns=[*columns, "pair_id"])
